"""A group's parked messages and dead letters: what fails alike, since when, and for which keys."""
