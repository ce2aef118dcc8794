"""PURE: offsets of queues: as text and as ranges, planned, limited, and what is lost of them."""
