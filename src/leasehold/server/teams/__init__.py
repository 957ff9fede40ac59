"""Applications, projects, members, and their permissions."""
