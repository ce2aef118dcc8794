"""The README's pictures, and what makes them by running the real program."""
