"""A lease in this process: its turns, renewal, check and release."""
