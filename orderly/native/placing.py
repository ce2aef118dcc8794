"""Which queue librocketmq sends to: our selectors, behind its callback.

The callback is told how many queues there are, nothing more, and what it returns is used unchecked.
It cannot refuse either, and an exception would count as 0, the first queue. So whatever is wrong
is kept, and the message is given a topic that no broker takes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from orderly.errors import LayoutChanged, SendFailed
from orderly.log import get_logger
from orderly.model import Message, MessageQueue
from orderly.native.library import Library
from orderly.selectors import Layout, Selector, choose, parse_layout, queues_of

NOWHERE = b"refused: not to be stored"  # no broker takes a topic's name with spaces


class Layouts:
    """How many queues each topic has, pinned. Thread-safe.

    Args:
        layout: "strict": what the first send sees; "loose": whatever each send sees; or a pin.

    Raises:
        ConfigError: a pin that cannot be read.
    """

    def __init__(self, layout: str) -> None:
        self._loose = layout == "loose"
        self._pin: Layout | None = None if layout in ("strict", "loose") else parse_layout(layout)
        self._seen: dict[str, int] = {}
        self._lock = threading.Lock()
        self._log = get_logger("orderly.native")

    def queues(self, topic: str, size: int) -> Sequence[MessageQueue]:
        """Return the topic's queues in counting order; brokers have names only in a pin.

        Raises:
            LayoutChanged: there are more or fewer than are pinned.
        """
        if self._pin is not None:
            pinned = queues_of(self._pin, topic)
        else:
            count = size if self._loose else self._first(topic, size)
            pinned = tuple(MessageQueue(topic, "", number) for number in range(count))
        if len(pinned) != size:
            raise LayoutChanged(
                f"{topic} has {size} queues but this producer is pinned to {len(pinned)}: sending"
                " now would move keys to other queues and break their order. If a broker is down,"
                " wait until it is back; if the queues were changed on purpose, stop all producers"
                " of the topic, let the consumers catch up, then start them anew"
            )
        return pinned

    def _first(self, topic: str, size: int) -> int:
        with self._lock:
            new = topic not in self._seen
            pinned = self._seen.setdefault(topic, size)
        if new:
            self._log.warning("native.layout_pinned", topic=topic, queues=size)
        return pinned


class Placement:
    """One send's choice, called by librocketmq. Used by that send only.

    Args:
        library: to have the message refused.
        layouts: the producer's.
        message: as named at the broker.
        selector, arg: see `orderly.selectors`.

    Attributes:
        queue: what was chosen; None: nothing was.
        error: why nothing was.
    """

    def __init__(
        self, library: Library, layouts: Layouts, message: Message, selector: Selector, arg: object
    ) -> None:
        self._refuse: Callable[[int, bytes], object] = library["SetMessageTopic"]
        self._layouts = layouts
        self._message = message
        self._selector = selector
        self._arg = arg
        self.queue: MessageQueue | None = None
        self.error: BaseException | None = None

    def __call__(self, size: int, handle: int, _arg: int) -> int:
        """Return the index of the queue."""
        try:
            queues = self._layouts.queues(self._message.topic, size)
            chosen = choose(self._selector, queues, self._message, self._arg)
            index = queues.index(chosen)
        except BaseException as error:  # noqa: BLE001 - nothing may be raised into C
            self.error = error
            self._refuse(handle, NOWHERE)
            return 0
        self.queue = chosen
        return index

    def check(self) -> MessageQueue:
        """Return the chosen queue.

        Raises:
            BaseException: what the selector raised, or LayoutChanged.
            SendFailed: nobody asked the selector.
        """
        if self.error is not None:
            raise self.error
        if self.queue is None:
            raise SendFailed("librocketmq did not ask the selector: the message is in any queue")
        return self.queue
