"""Imported only by the forkserver, from which all others are forked: it ends with the driver, and they end with it."""

from examples.escrow.load.parent_death import end_with_parent

end_with_parent()
