"""``leasehold run``: holds a lock while a command runs."""
