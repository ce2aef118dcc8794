"""SHELL: which queues are ours, and what keeps them so: rounds, locks, offsets, state."""
