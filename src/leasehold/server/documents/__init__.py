"""Documents: routes, queries, saving, versions, and drafts."""
