"""The REST routes of document locks: schemas, problems, and handlers."""
