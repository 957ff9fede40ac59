"""A cluster: its slots, the map of their owners, and the transport over all of its primaries."""
