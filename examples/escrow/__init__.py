"""An escrow service that keeps its books right although its workers are paused, killed and told everything twice.

Start reading at `deposits`, then `ledger`; the README has the picture.
"""
