"""Archived messages sent again, each key's in order."""
