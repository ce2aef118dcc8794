"""Ordered messages side by side with every peer: `python -m benchmarks.peers`."""
