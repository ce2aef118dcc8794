"""What a measurement is to do: the settings, what cannot be, and what is too much. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from orderly.bench.load import STAMP
from orderly.config import ConsumerConfig, ProducerConfig
from orderly.config.fields import require

MANY_MESSAGES = 2_000_000
MANY_BYTES = 1_000_000_000
MANY_QUEUES = 256  # on each broker; RocketMQ keeps files for each
MANY_SECONDS = 600.0
MOST_THREADS = 64


@dataclass(frozen=True, slots=True)
class SendPlan:
    """What is sent, and how.

    Attributes:
        count: messages.
        seconds: after which sending ends, whatever was reached; None: only `count` ends it.
        size: bytes of a body.
        keys: how many sharding keys.
        skew: 0: all keys alike; 1: the n-th key has 1/n of the first one's messages (Zipf).
        threads: that send; each has keys of its own, so that each key has one order.
        sync: each waits for the answer before its next message; otherwise `submit`.
        rate: messages a second, of all threads; None: as fast as it goes.
        config: of the producer.
    """

    count: int = 100_000
    seconds: float | None = None
    size: int = 256
    keys: int = 1000
    skew: float = 0.0
    threads: int = 1
    sync: bool = False
    rate: float | None = None
    config: ProducerConfig = field(default_factory=ProducerConfig)

    def __post_init__(self) -> None:
        require(self.count >= 1, "the count must be 1 message or more")
        least, most = STAMP.size, self.config.max_message_size
        require(
            least <= self.size <= most,
            f"a body has {least} to {most} bytes: it begins with a number and a time",
        )
        require(1 <= self.threads <= MOST_THREADS, f"threads are 1 to {MOST_THREADS}")
        require(self.threads <= self.keys, "more threads than keys: each needs keys of its own")
        require(0 <= self.skew <= 10, "the skew is 0 to 10")
        require(self.rate is None or self.rate > 0, "the rate must be more than 0 messages/s")

    @property
    def bytes(self) -> int:
        """Bytes of all bodies."""
        return self.count * self.size

    def text(self) -> str:
        """One phrase for the user, before anything is sent."""
        most = "" if self.seconds is None else f"for {self.seconds:g} s, at most "
        rate = "" if self.rate is None else f", {self.rate:g} a second"
        way = "send" if self.sync else "submit"
        by = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        return (
            f"{most}{self.count} messages of {self.size} bytes ({self.bytes / 1e6:.1f} MB){rate},"
            f" {self.keys} keys, by {way} from {by}"
        )


@dataclass(frozen=True, slots=True)
class ConsumePlan:
    """How it is consumed.

    Attributes:
        handler_ms: how long the handler makes as if it waited for something, in milliseconds.
        coroutines: whether the handler is an `async def`.
        config: of the consumer.
    """

    handler_ms: float = 0.0
    coroutines: bool = False
    config: ConsumerConfig = field(default_factory=lambda: ConsumerConfig(consume_from="first"))

    def __post_init__(self) -> None:
        require(0 <= self.handler_ms <= 10_000, "the handler takes 0 to 10000 ms")

    def text(self) -> str:
        """One phrase for the user."""
        kind = "coroutines" if self.coroutines else "threads"
        takes = f", {self.handler_ms:g} ms each" if self.handler_ms else ""
        at_once = self.config.concurrency
        return f"by {self.config.order}, at most {at_once} calls at once, on {kind}{takes}"


def too_much(send: SendPlan | None, queues: int) -> str:
    """Why this should be asked for twice; "" if it is nothing special.

    Args:
        send: what is sent, if anything.
        queues: of the topic that is made, on each broker.
    """
    reasons = [(queues > MANY_QUEUES, f"{queues} queues on each broker")]
    if send is not None:
        reasons += [
            (send.count > MANY_MESSAGES, f"{send.count} messages"),
            (send.bytes > MANY_BYTES, f"{send.bytes / 1e9:.1f} GB"),
            ((send.seconds or 0) > MANY_SECONDS, f"{send.seconds or 0:g} s of it"),
        ]
    return ", ".join(text for holds, text in reasons if holds)
