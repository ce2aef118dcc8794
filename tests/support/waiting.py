"""Waiting for a condition, never for luck."""

import time


def eventually(condition, within=30.0, every=0.005):
    """Return the first truthy value of `condition()`; fail after `within` seconds."""
    deadline = time.monotonic() + within
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within} s: {condition}")
        time.sleep(every)
    return value
