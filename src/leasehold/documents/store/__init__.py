"""Document locks in Valkey: scripts, events, and the registration of fences."""
