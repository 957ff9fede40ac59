"""What all routes share: middleware, fields, paging, problems, and rate limits."""
