"""One lock, many waiters in several processes: how fast it goes from one to the next, and how evenly."""
