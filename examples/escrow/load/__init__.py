"""The load test: customers who say everything several times, and workers that are paused and killed."""
