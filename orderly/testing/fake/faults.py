"""Scripted faults: what goes wrong with which request, how often. Only decisions; pure.

A fault counts the requests it applies to, so the same requests in the same order always meet the
same faults.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from orderly.config.arguments import (
    check_arguments,
    check_count,
    check_function,
    check_kind,
    check_number,
    check_text,
)
from orderly.protocol.frame import RemotingCommand


@dataclass(frozen=True, slots=True)
class Delay:
    """The request is carried out so many seconds later; others overtake it."""

    seconds: float

    def __post_init__(self) -> None:
        check_number("seconds", self.seconds, 0)


@dataclass(frozen=True, slots=True)
class DropRequest:
    """The request is neither carried out nor answered."""


@dataclass(frozen=True, slots=True)
class DropResponse:
    """The request is carried out; the answer never comes."""


@dataclass(frozen=True, slots=True)
class Fail:
    """The request is not carried out; the answer is this response code and remark."""

    code: int
    remark: str = "scripted by the test"

    def __post_init__(self) -> None:
        check_count("code", self.code, 0)
        check_text("remark", self.remark)


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection of the request is cut; the request is not carried out."""


Action = Delay | DropRequest | DropResponse | Fail | Cut
_ACTIONS = (Delay, DropRequest, DropResponse, Fail, Cut)


def always(command: RemotingCommand) -> bool:  # noqa: ARG001
    """Apply to every request of the code."""
    return True


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Args:
        code: the RequestCode it applies to.
        action: what goes wrong.
        times: for how many requests; None: all.
        when: a function of the request; False: this request is spared and not counted.

    Raises:
        ConfigError: an argument of another kind.
    """

    code: int
    action: Action
    times: int | None = 1
    when: Callable[[RemotingCommand], bool] = always

    def __post_init__(self) -> None:
        check_count("code", self.code, 0)
        check_kind("action", self.action, _ACTIONS, "one of Delay, DropRequest, … (an object)")
        if self.times is not None:
            check_count("times", self.times, 0)
        check_function("when", self.when)
        check_arguments("when", self.when, "command")


class Script:
    """The faults still to come; if several fit, the oldest applies. Not thread-safe."""

    def __init__(self) -> None:
        self._faults: list[tuple[Fault, list[int]]] = []

    def add(self, fault: Fault) -> None:
        """Add a fault."""
        self._faults.append((fault, [0]))

    def clear(self) -> None:
        """Let everything go well from now on."""
        self._faults.clear()

    def decide(self, command: RemotingCommand) -> Action | None:
        """What is to go wrong with this request; counted as done."""
        for fault, applied in self._faults:
            used_up = fault.times is not None and applied[0] >= fault.times
            if fault.code == command.code and not used_up and fault.when(command):
                applied[0] += 1
                return fault.action
        return None
