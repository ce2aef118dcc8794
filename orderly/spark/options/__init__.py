"""PURE: the options of the source: their table, their values, positions to begin and to end at."""
