"""Hand-overs of one lock among many waiters in several processes: speed and fairness."""
