"""More queues for a topic whose keys keep their order: drained first, or not at all."""
