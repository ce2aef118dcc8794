"""What a consumer is made of before it starts: checked arguments, and its shared state."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from pathlib import Path

from orderly.client import Client
from orderly.config import ConsumerConfig
from orderly.config.numbers import is_number
from orderly.consumer.hooks import ConsumerHooks
from orderly.consumer.owning.local_offsets import LocalOffsets
from orderly.consumer.owning.perform import broadcasting_performer, performer
from orderly.consumer.owning.state_topics import StateTopics
from orderly.consumer.session import Session, sharding_key
from orderly.errors import ConfigError
from orderly.model import ReceivedMessage
from orderly.protocol.heartbeat import BY_SQL, Subscription


def check_key(config: ConsumerConfig, key: Callable[[ReceivedMessage], Hashable]) -> None:
    """Refuse a key function that would decide nothing.

    Raises:
        ConfigError: order by queue.
    """
    if key is not sharding_key and not config.by_key:
        raise ConfigError(
            "key= decides nothing with order='queue': pass"
            " config=ConsumerConfig(order='key'), or leave key out"
        )


def check_handler(config: ConsumerConfig, handler: object) -> None:
    """Refuse a handler, such as a Listener, whose settings contradict the consumer's.

    Args:
        config: the consumer's.
        handler: says with attributes that it `parks` keys, that it `judges` when a message is
            given up, and for how long its retries go on with the queue's lock `unrenewed`.

    Raises:
        ConfigError: no keys to park; a limit of tries beside a verdict; a lock that is trusted for
            a shorter time.
    """
    if getattr(handler, "parks", False) is True and (not config.by_key or config.broadcasting):
        raise ConfigError(
            "this handler parks keys, which needs ConsumerConfig(order='key') and"
            " model='clustering': set these, or another on_poison= at the listener"
        )
    if getattr(handler, "judges", False) is True and config.max_reconsume_times is not None:
        raise ConfigError(
            "this listener decides itself when a message is given up, and never in an outage:"
            " leave max_reconsume_times out, or pass poison=None to the listener"
        )
    unrenewed = getattr(handler, "unrenewed", None)
    trusted = config.broadcasting or not is_number(unrenewed) or unrenewed <= config.lock_trust
    if not trusted:
        raise ConfigError(
            f"this listener's retries go on for {unrenewed:g} s, but a queue's lock is trusted for"
            f" {config.lock_trust:g} s: lower max_seconds of its Retry, or pass extend=True there"
        )


def new_session(
    group: str,
    client: Client,
    config: ConsumerConfig,
    hooks: ConsumerHooks,
    key: Callable[[ReceivedMessage], Hashable],
) -> tuple[Session, LocalOffsets | None]:
    """The shared state, and a broadcasting member's own offsets."""
    if not config.broadcasting:
        perform = performer(group, client.brokers, client.config.record_secrets)
        return Session(group, client, config, perform, hooks, key=key), None
    offsets = LocalOffsets(Path(config.offsets_folder), group, config.instance)
    perform = broadcasting_performer(group, offsets, client.brokers)
    together = offsets.put_all
    session = Session(group, client, config, perform, hooks, key=key, store_together=together)
    return session, offsets


def new_state_topics(session: Session) -> StateTopics | None:
    """Where what is finished ahead is remembered; a broadcasting member remembers nothing."""
    config = session.config
    if not config.by_key or config.broadcasting:
        return None
    return StateTopics(session.client, session.group, config.create_state_topics, session.log)


def subscription_of(topic: str, tags: str, sql: str | None) -> Subscription:
    """Return what is to be consumed of a topic.

    Raises:
        ConfigError: tags and a condition, or one of them is none.
    """
    if sql is not None:
        if tags != "*":
            raise ConfigError("pass tags or sql, not both")
        if not isinstance(sql, str) or not sql.strip():
            raise ConfigError(f"sql must be a condition such as 'amount > 100', not {sql!r}")
        return Subscription(topic, sql, expression_type=BY_SQL)
    if not isinstance(tags, str):
        raise ConfigError(f"tags must be a str such as '*' or 'A || B', not {tags!r}")
    return Subscription.from_expression(topic, tags, 0)
