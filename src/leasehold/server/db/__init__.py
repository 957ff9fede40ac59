"""The database: engine, tables, and migrations."""
