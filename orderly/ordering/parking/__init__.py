"""PURE: keys set aside: which they are, how many may be, and where their messages are found."""
