"""Waiting for a condition, never for luck."""

import time

BUSY = 3  # so many times as long may everything take on a busy machine


def eventually(condition, within=30.0, every=0.005):
    """Return the first truthy value of `condition()`.

    It fails after `within` seconds, as a machine with nothing else to do counts them. Where a time
    is what is promised the test has to measure it.
    """
    deadline = time.monotonic() + BUSY * within
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {BUSY * within} s: {condition}")
        time.sleep(every)
    return value
