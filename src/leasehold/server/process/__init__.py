"""Processes of ``leasehold serve``: the supervisor, its workers, and their sockets."""
