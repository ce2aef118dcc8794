"""A function for one message becomes a consumer's handler: retry in place, suspend, then a policy.

`outcomes`, `rules` and `decide` are pure; `listener` runs the function, waits and logs.
"""

from orderly.listener.listener import Function, Listener
from orderly.listener.outcomes import (
    Again,
    Attempt,
    Block,
    DeadLetter,
    Done,
    Outcome,
    Park,
    Suspend,
)
from orderly.listener.rules import Retry

__all__ = [
    "Again",
    "Attempt",
    "Block",
    "DeadLetter",
    "Done",
    "Function",
    "Listener",
    "Outcome",
    "Park",
    "Retry",
    "Suspend",
]
