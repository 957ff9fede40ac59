"""Contents of locked files: atomic reads and writes."""
