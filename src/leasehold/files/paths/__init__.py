"""Identity of a file: resolution, links, case, and opening without following links."""
