"""Settings as frozen values, checked when they are made. Durations are seconds, sizes bytes.

`from_env()` reads `ORDERLY_<FIELD>` for each field, e.g. `ORDERLY_NAMESRV`. What is not
available yet is refused here, so that no setting is silently ignored.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Self

from orderly.errors import ConfigError, NotAvailableYet

MIB = 1024 * 1024
DEFAULT_NAMESRV_PORT = 9876
_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")
_MAX_TOPIC = 127  # the broker's limit (TopicValidator.TOPIC_MAX_LENGTH)
_MAX_LOCK_TRUST = 50.0  # the broker frees a lock after 60 s (ordering.lease.BROKER_LEASE)
_MAX_GROUP = 120  # the broker's limit; leaves room for the %RETRY% prefix


def check_seconds(name: str, value: float) -> float:
    """Return `value` if it is a finite number of seconds above 0, else raise ConfigError."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 < value < math.inf:
        raise ConfigError(f"{name} must be a number of seconds above 0, not {value!r}")
    return value


def check_topic(topic: str) -> str:
    """Return `topic` if a broker accepts it as a topic name, else raise ConfigError."""
    return _check_name("topic", topic, _MAX_TOPIC)


def check_group(group: str) -> str:
    """Return `group` if a broker accepts it as a group name, else raise ConfigError."""
    return _check_name("group", group, _MAX_GROUP)


def _check_name(kind: str, name: str, limit: int) -> str:
    if not isinstance(name, str) or not name:
        raise ConfigError(f"the {kind} name must be a non-empty str, not {name!r}")
    if len(name) > limit:
        raise ConfigError(
            f"the {kind} name {name[:20]!r}… has {len(name)} characters; at most {limit}"
        )
    if not _NAME.fullmatch(name):
        raise ConfigError(f"the {kind} name {name!r} may only contain letters, digits and %|_-")
    return name


def parse_addresses(namesrv: str) -> tuple[str, ...]:
    """Split "host:port;host:port" (or commas) into addresses; the port defaults to 9876.

    Raises:
        ConfigError: empty, or a port that is not a number from 1 to 65535.
    """
    if not isinstance(namesrv, str):
        raise ConfigError(f"namesrv must be a str such as 'host:9876', not {namesrv!r}")
    parts = [part.strip() for part in re.split(r"[;,]", namesrv) if part.strip()]
    if not parts:
        raise ConfigError(
            "no name server is set: pass namesrv='host:9876' or set ORDERLY_NAMESRV"
            " (`orderly broker start` runs a local one)"
        )
    return tuple(_address(part) for part in parts)


def _address(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not colon:
        host, port = text, str(DEFAULT_NAMESRV_PORT)
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"{text!r} is not a name server address; write host:port")
    return f"{host}:{port}"


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ConfigError(message)


_KINDS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "int": (int, "an int"),
    "float": ((int, float), "a finite number"),
    "str": (str, "a str"),
}


def _check_types(config: Any) -> None:
    """Check every int, float and str field; a bool is no number, and neither is NaN."""
    for field in fields(config):
        accepted, text = _KINDS.get(str(field.type), (object, ""))
        value = getattr(config, field.name)
        good = isinstance(value, accepted)
        if field.type in ("int", "float"):
            good = good and not isinstance(value, bool) and math.isfinite(value)
        _require(good, f"{field.name} must be {text}, not {value!r}")


class _FromEnv:
    """Adds `from_env()` to a config; explicit arguments win over the environment."""

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None, **explicit: Any) -> Self:
        """Read `ORDERLY_<FIELD>` from `env` (default: os.environ); `explicit` fields win.

        Raises:
            ConfigError: a variable that cannot be read as its field's type.
        """
        env = os.environ if env is None else env
        found = {
            f.name: _from_text(f.name, str(f.type), env[f"ORDERLY_{f.name.upper()}"])
            for f in fields(cls)  # type: ignore[arg-type]
            if f"ORDERLY_{f.name.upper()}" in env
        }
        return cls(**(found | explicit))


def _from_text(name: str, kind: str, text: str) -> Any:
    readers = {"int": int, "float": float, "str": str}
    try:
        return readers.get(kind, str)(text)
    except ValueError as error:
        raise ConfigError(f"ORDERLY_{name.upper()}={text!r} is not a valid {kind}") from error


@dataclass(frozen=True, slots=True)
class ClientConfig(_FromEnv):
    """Connections, name servers and heartbeats.

    Attributes:
        namesrv: "host:port;host:port"; empty: ORDERLY_NAMESRV.
        connect_timeout, request_timeout: seconds (Java: 3 and 3).
        route_interval: seconds between route refreshes.
        heartbeat_interval: seconds between heartbeats; the broker forgets a member after 120.
        max_frame: bytes; a longer frame from a peer is a ProtocolError.
    """

    namesrv: str = ""
    connect_timeout: float = 3.0
    request_timeout: float = 3.0
    route_interval: float = 30.0
    heartbeat_interval: float = 30.0
    max_frame: int = 16 * MIB

    def __post_init__(self) -> None:
        given = self.namesrv != ""
        namesrv = self.namesrv if given else os.environ.get("ORDERLY_NAMESRV", "")
        object.__setattr__(self, "namesrv", ";".join(parse_addresses(namesrv)))
        _check_types(self)
        for name in ("connect_timeout", "request_timeout", "route_interval", "heartbeat_interval"):
            _require(getattr(self, name) > 0, f"{name} must be more than 0 seconds")
        _require(self.max_frame >= 64 * 1024, "max_frame must be at least 65536 bytes")

    @property
    def addresses(self) -> tuple[str, ...]:
        """The name servers as ("host:port", …)."""
        return tuple(self.namesrv.split(";"))


@dataclass(frozen=True, slots=True)
class ProducerConfig(_FromEnv):
    """How ordered messages are sent.

    Attributes:
        send_timeout: seconds an attempt may take (Java: 3).
        delivery_timeout: seconds from `submit` after which no attempt begins any more; waiting
            behind other messages and all retries included.
        retries: further attempts after a retriable failure, always to the same queue.
        retry_backoff: seconds before the first retry, doubled each time.
        layout: "strict" (pin the first route seen), "loose" (follow the route, as Java), or a
            pin such as "broker-a:8;broker-b:8" shared by all producers (decision 22).
        hold_failed_key: seconds that a key whose send failed stays closed to later messages,
            unless `resume` is called (decision 21).
        max_message_size: bytes of body (the broker's own default limit is 4 MiB).
        compress_above: bytes; larger bodies are sent zlib-compressed (Java: 4096). 0: never.
        batch_messages, batch_bytes: what one batched request of `submit` may hold; the broker
            applies its size limit of a message (4 MiB) to a batch as well.
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
    max_pending: int = 10_000

    def __post_init__(self) -> None:
        _check_types(self)
        _require(self.send_timeout > 0, "send_timeout must be more than 0 seconds")
        _require(self.delivery_timeout > 0, "delivery_timeout must be more than 0 seconds")
        _require(self.retries >= 0, "retries must be 0 or more")
        _require(self.retry_backoff >= 0, "retry_backoff must be 0 seconds or more")
        _require(self.hold_failed_key >= 0, "hold_failed_key must be 0 seconds or more")
        _require(0 < self.max_message_size <= 15 * MIB, "max_message_size must be 1 byte to 15 MiB")
        _require(self.compress_above >= 0, "compress_above must be 0 bytes or more")
        _require(self.batch_messages > 0, "batch_messages must be 1 or more")
        _require(0 < self.batch_bytes <= 4 * MIB, "batch_bytes must be 1 byte to 4 MiB")
        _require(self.max_pending > 0, "max_pending must be 1 message or more")


@dataclass(frozen=True, slots=True)
class ConsumerConfig(_FromEnv):
    """How ordered messages are consumed. Names and defaults follow DefaultMQPushConsumer.

    Attributes:
        consume_from: where a group without a stored offset starts: "last" (as Java), "first", or
            an ISO 8601 time (Java's yyyyMMddHHmmss, local time, is understood).
        batch_size: messages handed to the handler at once.
        suspend: seconds a queue waits after SUSPEND, 0.01 to 30.
        min_workers, max_workers: threads that run handlers; idle ones end after 60 s.
        pull_batch: messages asked for in one pull (the broker caps it at 32).
        pull_threshold, pull_threshold_bytes: cached messages and bytes per queue at which
            pulling pauses.
        pull_retry: seconds before a pull that failed, or was not allowed, is tried again.
        rebalance_interval, lock_interval, commit_interval: seconds between rounds.
        lock_trust: seconds after which a lock not renewed is no longer trusted here; at most 50
            (the broker frees it after 60).
        close_timeout: seconds `close` waits for running handlers.
        order: "queue". "key" comes with key lanes.
        model: "clustering". "broadcasting" comes with the whole consumer.
    """

    consume_from: str = "last"
    batch_size: int = 1
    suspend: float = 1.0
    min_workers: int = 1
    max_workers: int = 20
    pull_batch: int = 32
    pull_threshold: int = 1000
    pull_threshold_bytes: int = 100 * MIB
    pull_retry: float = 3.0
    rebalance_interval: float = 20.0
    lock_interval: float = 20.0
    lock_trust: float = 30.0
    commit_interval: float = 5.0
    close_timeout: float = 30.0
    order: str = "queue"
    model: str = "clustering"
    max_reconsume_times: int | None = None

    def __post_init__(self) -> None:
        parse_consume_from(self.consume_from)
        _check_types(self)
        self._refuse_what_is_missing()
        _require(1 <= self.batch_size <= 1024, "batch_size must be 1 to 1024 messages")
        _require(0.01 <= self.suspend <= 30, "suspend must be 0.01 to 30 seconds")
        _require(1 <= self.min_workers <= self.max_workers, "need 1 <= min_workers <= max_workers")
        _require(1 <= self.pull_batch <= 1024, "pull_batch must be 1 to 1024 messages")
        _require(self.pull_threshold > 0, "pull_threshold must be 1 message or more")
        _require(self.pull_threshold_bytes > 0, "pull_threshold_bytes must be 1 byte or more")
        for name in ("pull_retry", "rebalance_interval", "lock_interval", "commit_interval"):
            _require(getattr(self, name) > 0, f"{name} must be more than 0 seconds")
        _require(
            self.lock_interval < self.lock_trust,
            "lock_interval must be shorter than lock_trust, or every lock expires between renewals",
        )
        _require(
            self.lock_trust <= _MAX_LOCK_TRUST,
            f"lock_trust must be at most {_MAX_LOCK_TRUST:g} seconds: the broker gives a lock that"
            " is not renewed to another member after 60",
        )
        _require(self.close_timeout >= 0, "close_timeout must be 0 seconds or more")

    def _refuse_what_is_missing(self) -> None:
        _require(self.order in ("queue", "key"), "order must be 'queue' or 'key'")
        _require(
            self.model in ("clustering", "broadcasting"),
            "model must be 'clustering' or 'broadcasting'",
        )
        if self.order == "key":
            raise NotAvailableYet("order='key' is not available yet; use order='queue'")
        if self.model == "broadcasting":
            raise NotAvailableYet("model='broadcasting' is not available yet; use 'clustering'")
        if self.max_reconsume_times is not None:
            raise NotAvailableYet(
                "max_reconsume_times (dead letters) is not available yet; leave it None:"
                " a message that keeps failing is retried until it succeeds, as Java's default"
            )


def parse_consume_from(text: str) -> str | datetime:
    """Read a start position: "first", "last", or a time (aware, UTC).

    Java's deprecated values act as "last", as they do there.

    Raises:
        ConfigError: anything else.
    """
    if not isinstance(text, str):
        raise ConfigError(
            f"consume_from={text!r} must be a str: 'first', 'last' or an ISO 8601 time"
        )
    word = text.strip().lower().removeprefix("consume_from_").removesuffix("_offset")
    if word in ("first", "last"):
        return word
    if word in ("last_offset_and_from_min_when_boot_first", "min", "max"):
        return "last"
    return _parse_time(text)


def _parse_time(text: str) -> datetime:
    try:
        if re.fullmatch(r"\d{14}", text):
            moment = datetime.strptime(text, "%Y%m%d%H%M%S")  # noqa: DTZ007  local, as Java reads it
        else:
            moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(
            f"consume_from={text!r} must be 'first', 'last' or an ISO 8601 time"
        ) from error
    return moment.astimezone(UTC)
