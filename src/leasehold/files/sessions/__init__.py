"""Sessions: their verbs, their history in the store, and the files that they hold."""
