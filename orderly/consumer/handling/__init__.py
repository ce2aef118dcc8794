"""SHELL: a batch's way through the handler to its result: on threads or as coroutines."""
