"""Decisions about locks, as coroutines over ports: no I/O, no clock, no randomness."""
