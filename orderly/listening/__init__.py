"""A function for one message becomes a consumer's handler: retry, judge, and deal with poison.

Named so that `@orderly.listener` can be the decorator. The rules of the verdict are pure and live
in `ordering`; here the function is run, the failures are remembered and the events are logged.
"""

from orderly.listening.handler_call import Attempt
from orderly.listening.listeners import AsyncListener, Listener, listener
from orderly.listening.outcomes import Block, Outcome, Skip
from orderly.listening.retry import Retry
from orderly.ordering.poison import PoisonRules

__all__ = [
    "AsyncListener",
    "Attempt",
    "Block",
    "Listener",
    "Outcome",
    "PoisonRules",
    "Retry",
    "Skip",
    "listener",
]
