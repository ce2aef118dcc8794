"""PURE: what the next owner must know: commits, their fence, and the state records."""
