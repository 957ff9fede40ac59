"""Shared by all routes: middleware, fields, paging, problems, and rate limits."""
