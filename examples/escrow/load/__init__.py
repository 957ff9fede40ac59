"""The load test: duplicate messages from customers, and workers that are paused and killed."""
