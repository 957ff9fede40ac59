"""Leasehold measured against the limit of the wire and against its peers: `python -m bench --help`."""
