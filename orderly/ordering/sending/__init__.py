"""PURE: what keeps the order on the way to the broker."""
