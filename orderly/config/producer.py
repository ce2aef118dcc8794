"""Settings of the producer."""

from __future__ import annotations

from dataclasses import dataclass

from orderly.config.fields import MIB, FromEnv, check_types, require


@dataclass(frozen=True, slots=True)
class ProducerConfig(FromEnv):
    """How ordered messages are sent.

    Attributes:
        send_timeout: seconds that one attempt can take (Java: 3).
        delivery_timeout: seconds from `submit` after which no further attempt begins; waiting
            behind other messages and all retries are included.
        retries: further attempts after a retriable failure, always to the same queue.
        retry_backoff: seconds before the first retry, doubled each time.
        layout: "strict" (pin the first route seen), "loose" (follow the route, as Java), or a
            pin such as "broker-a:8;broker-b:8" shared by all producers.
        hold_failed_key: seconds that a key whose send failed stays closed to later messages,
            unless `resume` is called.
        max_message_size: bytes of body (the broker's own default limit is 4 MiB).
        compress_above: bytes; larger bodies are sent zlib-compressed (Java: 4096). 0: never.
        batch_messages, batch_bytes: the most that one batched request of `submit` holds. The broker
            applies its size limit of a message (4 MiB) to a batch as well.
        linger: seconds that the first message of a batch waits for more, or until there are
            `batch_messages`. 0: a batch has the messages that gather while the previous batch is in
            flight. A message of `send` never waits.
        max_pending: messages waiting in the producer before `submit` blocks.
    """

    send_timeout: float = 3.0
    delivery_timeout: float = 60.0
    retries: int = 2
    retry_backoff: float = 0.3
    layout: str = "strict"
    hold_failed_key: float = 60.0
    max_message_size: int = 4 * MIB
    compress_above: int = 4096
    batch_messages: int = 64
    batch_bytes: int = 256 * 1024
    linger: float = 0.0
    max_pending: int = 10_000

    def __post_init__(self) -> None:
        check_types(self)
        require(self.send_timeout > 0, "send_timeout must be more than 0 seconds")
        require(self.delivery_timeout > 0, "delivery_timeout must be more than 0 seconds")
        require(self.retries >= 0, "retries must be 0 or more")
        require(self.retry_backoff >= 0, "retry_backoff must be 0 seconds or more")
        require(self.hold_failed_key >= 0, "hold_failed_key must be 0 seconds or more")
        require(0 < self.max_message_size <= 15 * MIB, "max_message_size must be 1 byte to 15 MiB")
        require(self.compress_above >= 0, "compress_above must be 0 bytes or more")
        require(self.batch_messages > 0, "batch_messages must be 1 or more")
        require(0 < self.batch_bytes <= 4 * MIB, "batch_bytes must be 1 byte to 4 MiB")
        require(0 <= self.linger <= 10, "linger must be 0 to 10 seconds")
        require(self.max_pending > 0, "max_pending must be 1 message or more")
