"""The one table of the selectors that look at a key: names, whose placement it is, what they take.

Whatever offers a choice of selectors by name, or asks which of them put messages where they lie,
reads this table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orderly.model import MessageQueue
from orderly.selectors.cpp import cpp_hash_mod
from orderly.selectors.go import go_hash_mod
from orderly.selectors.keyed import hash_mod, numeric_mod
from orderly.selectors.proxy import in_proxy_order, proxy_hash

if TYPE_CHECKING:
    from orderly.selectors.choice import Selector

_INT_DIGITS = 19
_LONG_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Rule:
    """A selector, for those who know it by name.

    Attributes:
        name: of the selector.
        selector: itself.
        producers: whose placement it is.
        given: what it is given for a stored key, which is always text; None: it takes no such key.
        counted: a topic's queues in the order in which it counts them.
    """

    name: str
    selector: Selector
    producers: str
    given: Callable[[str], str | int | None] = str
    counted: Callable[[Sequence[MessageQueue]], Sequence[MessageQueue]] = tuple


def stored_number(key: str) -> int | None:
    """The number that a key's text stands for, written as a producer writes it; None: no number."""
    digits = key.removeprefix("-")
    if not digits.isdecimal() or not digits.isascii() or len(digits) > _INT_DIGITS:
        return None
    number = int(key)
    return number if str(number) == key and -_LONG_MAX - 1 <= number <= _LONG_MAX else None


_RULES = (
    Rule("hash_mod", hash_mod, "Java's SelectMessageQueueByHash; the default here"),
    Rule("numeric_mod", numeric_mod, "number modulo queues, as in many examples", stored_number),
    Rule(
        "proxy_hash",
        proxy_hash,
        "the 5.x proxy, for gRPC clients of all languages",
        counted=in_proxy_order,
    ),
    Rule("cpp_hash_mod", cpp_hash_mod, "librocketmq: C++, and Python's older binding"),
    Rule("go_hash_mod", go_hash_mod, "Go's NewHashQueueSelector"),
)
KEYED: dict[str, Rule] = {rule.name: rule for rule in _RULES}
"""By name, the most usual first."""
_SELECTORS = tuple(rule.selector for rule in KEYED.values())


def needs_key(selector: Selector) -> bool:
    """Whether it is one of these: without a key it has nothing to go by."""
    return selector in _SELECTORS
