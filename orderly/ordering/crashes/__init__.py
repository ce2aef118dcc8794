"""Messages that end the process of whoever handles them: how they are found, from records alone."""
