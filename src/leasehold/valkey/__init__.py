"""The store: scripts, keys and records of locks on Valkey or Redis."""
