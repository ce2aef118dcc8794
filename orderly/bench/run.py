"""A measurement from the first to the last: make, send, consume, and take away what was made."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from orderly.bench.clock import PhaseClock
from orderly.bench.consuming import Consuming
from orderly.bench.figures import Span
from orderly.bench.plan import ConsumePlan, SendPlan
from orderly.bench.scratch import Names, make, remove
from orderly.bench.sending import Sending
from orderly.bench.summing import span_of
from orderly.bench.watcher import Watcher
from orderly.client import Client
from orderly.config import ClientConfig
from orderly.errors import ConfigError
from orderly.namespace import wrap

_JOIN = 30.0  # seconds for the consumer to get its queues before messages are sent at a rate

Telling = Callable[[str, int | None], Callable[[int], None]]


@dataclass(slots=True)
class Outcome:
    """What a measurement came to.

    Attributes:
        spans: by name: "send", "consume", or "together".
        left: what could not be taken away, and why; None: nothing was to be.
    """

    spans: dict[str, Span] = field(default_factory=dict)
    left: list[str] | None = None

    @property
    def interrupted(self) -> bool:
        """Whether it ended before its time."""
        return any(span.ended == "interrupted" for span in self.spans.values())


@dataclass(frozen=True, slots=True)
class Bench:
    """One measurement.

    Attributes:
        config: of the clients, each side has its own.
        names: of topic and group.
        queues: of a topic that is made, on each broker.
        send: what to send, or what is in the topic that is consumed.
        consume: how.
        tell: is told what takes its time.
        progress: (what, total) gives a function that is told how many are done.
        cluster: where the topic is made; None: there is only one.
        keep: leave topic and group.
    """

    config: ClientConfig
    names: Names
    queues: int
    send: SendPlan
    consume: ConsumePlan
    tell: Callable[[str], None]
    progress: Telling
    cluster: str | None = None
    keep: bool = False

    def sends(self, outcome: Outcome) -> None:
        """Only send."""
        outcome.spans["send"] = self._send("sent")

    def consumes(self, outcome: Outcome) -> None:
        """Only consume: what is in a user's topic, or a backlog that is made before."""
        if not self.names.own_topic:
            outcome.spans["consume"] = self._consume(self._there())
            return
        filled = self._send("sent, to be consumed")
        if filled.ended == "interrupted":
            outcome.spans["send"] = filled
            return
        assert filled.sent is not None
        outcome.spans["consume"] = self._consume(filled.sent.messages)

    def both(self, outcome: Outcome) -> None:
        """Send, then consume; with a rate both at once."""
        if self.send.rate is not None:
            outcome.spans["together"] = self._together()
            return
        self.sends(outcome)
        sent = outcome.spans["send"].sent
        if not outcome.interrupted and sent is not None and sent.messages:
            outcome.spans["consume"] = self._consume(sent.messages)

    @contextmanager
    def prepared(self, outcome: Outcome) -> Iterator[None]:
        """Make the topic and the group, and take them away in the end, whatever happens."""
        with Client(self.config) as client:
            client.admin.cluster()  # or nobody is there, and nothing to be taken away
            try:
                make(client, self.names, self.queues, self.cluster)
                yield
            finally:
                if not self.keep:
                    outcome.left = remove(client, self.names)

    def _send(self, what: str) -> Span:
        clock = PhaseClock()
        tell = self.progress(what, self._total())
        with ExitStack() as stack:
            side = self._sending(stack, clock)
            side.start()
            watcher = Watcher(clock, side, None)
            watcher.run(lambda sent, _: tell(sent))
        return span_of(watcher)

    def _consume(self, expected: int) -> Span:
        clock = PhaseClock()
        tell = self.progress("consumed", expected)
        with ExitStack() as stack:
            side = self._consuming(stack, clock, delays=False)
            watcher = Watcher(clock, None, side, expected=expected, seconds=self.send.seconds)
            side.start()
            watcher.run(lambda _, consumed: tell(consumed))
        return span_of(watcher)

    def _together(self) -> Span:
        clock = PhaseClock()
        tell = self.progress("sent and consumed", self._total())
        with ExitStack() as stack:
            consuming = self._consuming(stack, clock, delays=True)
            sending = self._sending(stack, clock)
            consuming.start()
            self._wait_for_queues(consuming)
            watcher = Watcher(clock, sending, consuming)
            sending.start()
            watcher.run(lambda _, consumed: tell(consumed))
        return span_of(watcher)

    def _total(self) -> int | None:
        """How many messages it will be, if that is known."""
        timed = self.send.seconds is not None and self.send.rate is None
        return None if timed else self.send.count

    def _sending(self, stack: ExitStack, clock: PhaseClock) -> Sending:
        client = stack.enter_context(Client(self.config))
        side = Sending(client, self.names.topic, self.send, self.names.run, clock)
        stack.callback(side.close)
        return side

    def _consuming(self, stack: ExitStack, clock: PhaseClock, *, delays: bool) -> Consuming:
        client = stack.enter_context(Client(self.config))
        side = Consuming(client, self.names, self.consume, clock, delays=delays)
        stack.callback(self._end, side)
        return side

    def _end(self, side: Consuming) -> None:
        """Close it; if the group is to be deleted, so that it does not come again."""
        side.close()
        if side.first is None or self.keep:
            return
        if not self.names.own_topic:
            self.tell("waits until the brokers let go of the last pulls: up to 20 s")
        side.let_go(wake=self.names.own_topic)

    def _wait_for_queues(self, consuming: Consuming) -> None:
        """Wait until all queues are held: nobody wants to see how long a start takes."""
        with Client(self.config) as client:
            route = client.routes.get(wrap(self.config.namespace, self.names.topic))
        wanted = sum(data.read_queues for data in route.queues)
        until = time.monotonic() + _JOIN
        while consuming.queues < wanted and time.monotonic() < until:
            time.sleep(0.02)

    def _there(self) -> int:
        """How many messages there are to be consumed.

        Raises:
            ConfigError: none.
        """
        with Client(self.config) as client:
            stats = client.admin.topic_stats(wrap(self.config.namespace, self.names.topic))
        there = sum(offsets.max_offset - offsets.min_offset for offsets in stats.values())
        if not there:
            raise ConfigError(
                f"topic {self.names.topic} has no messages to consume; without --topic one is made"
                " and filled"
            )
        return min(there, self.send.count)


def without_rate(plan: SendPlan) -> SendPlan:
    """The plan to fill a topic: as fast as it goes, and not one by one."""
    return replace(plan, rate=None, sync=False)
