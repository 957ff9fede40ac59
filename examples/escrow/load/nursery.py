"""Imported by the process that all others are forked from, and by nothing else: it ends with the driver, and they with it."""

from examples.escrow.load.tether import end_with_parent

end_with_parent()
