"""An escrow service whose books stay correct although its workers are paused and killed and get duplicate messages.

Start reading at `deposits`, then `ledger`; the README has the picture.
"""
