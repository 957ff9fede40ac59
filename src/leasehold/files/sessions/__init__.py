"""Sessions, which hold file locks, and what the store keeps of them."""
