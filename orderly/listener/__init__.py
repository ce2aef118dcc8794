"""A function for one message becomes a consumer's handler: retry in place, suspend, then a policy.

`outcomes`, `rules` and `decide` are pure; `listener` runs the function, waits and logs. The
outcomes that every handler may answer (Ack, Fail, Suspend, DeadLetter, Park) are in `orderly`.
"""

from orderly.listener.listener import Function, Listener
from orderly.listener.outcomes import Attempt, Block, Outcome
from orderly.listener.rules import Retry

__all__ = ["Attempt", "Block", "Function", "Listener", "Outcome", "Retry"]
