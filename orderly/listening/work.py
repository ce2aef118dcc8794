"""The part of a listener that a worker process runs; memory, verdict and policy stay behind.

Several processes share the messages, so what one of them sees of other keys would prove nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import reduce
from importlib import import_module
from typing import Any

from orderly.listening.delivery import Delivery
from orderly.listening.trial import PASSED_ON, Failed, Trial, Tried
from orderly.model import ReceivedMessage
from orderly.ordering.context import ConsumeContext


class Work:
    """Handles one message and answers with what the try came to. Can be pickled.

    Args:
        trial: the listener's.
    """

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self.__qualname__ = str(getattr(trial.function, "__qualname__", type(trial.function)))

    def __call__(self, messages: Sequence[ReceivedMessage], context: ConsumeContext) -> Any:
        """Run the function; the answer is a `Tried`."""
        tried = self._trial.run(Delivery(messages[0], context))
        return tried.portable() if isinstance(tried, Failed) else tried

    def __reduce__(self) -> tuple[Callable[..., Work], tuple[Any, ...]]:
        """Pickle a decorated function's by name: that name means the listener, not the function."""
        function = self._trial.function
        place = str(getattr(function, "__module__", "")), self.__qualname__
        if getattr(_at(sys.modules.get(place[0]), place[1]), "__wrapped__", None) is function:
            return _found, place
        return Work, (self._trial,)


class Elsewhere:
    """Runs a `Work` in another process, for a listener. Thread-safe.

    Args:
        trial: the listener's.
        call: the consumer's handler that calls the Work there.
    """

    def __init__(
        self, trial: Trial, call: Callable[[Sequence[ReceivedMessage], ConsumeContext], Any]
    ) -> None:
        self._trial = trial
        self._call = call

    def run(self, delivery: Delivery) -> Tried:
        """Run the function there; that its process died is a failure, too."""
        try:
            tried: Tried = self._call((delivery.message,), delivery.context)
        except PASSED_ON:
            raise
        except BaseException as error:  # noqa: BLE001 - it died, hung, or cannot load the function
            return self._trial.raised(error)
        return tried


def _found(module: str, name: str) -> Work:
    work: Work = _at(import_module(module), name).work
    return work


def _at(module: Any, name: str) -> Any:
    return reduce(lambda holder, part: getattr(holder, part, None), name.split("."), module)
