"""Benchmarks of Leasehold against bare hiredis and its peers: `python -m bench --help`."""
