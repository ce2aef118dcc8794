"""SHELL: keys that are set aside, from the first message parked until the key is given back."""
