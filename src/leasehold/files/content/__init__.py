"""Reading and writing locked files atomically."""
