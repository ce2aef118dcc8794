"""Hot keys and queues of a whole topic, counted exactly, and what other choices would give."""
