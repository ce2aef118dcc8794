"""The rules that give a queue its state, in the order of their numbers: see `table`."""
