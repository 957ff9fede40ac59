"""The world as the core sees it: clocks, randomness, and things that run side by side."""
