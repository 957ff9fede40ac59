"""What document locks ask of Valkey: scripts, events, and the fence in the database row."""
