"""Messages of a table sent again, each key's in order."""
