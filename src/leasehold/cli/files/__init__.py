"""The commands ``leasehold files …``."""
