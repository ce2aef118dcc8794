"""The row in Redis, checked and set by one Lua script that runs the effect as well.

Redis has no transaction that stays open while a handler works. So the effect must be commands of
the script. If an effect elsewhere were written after the row, a crash could lose it; if it were
written before the row, a crash could repeat it. So there is no call without commands.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.client import Pipeline as AsyncPipeline
from redis.client import Pipeline

from orderly.config.arguments import check_text
from orderly.errors import ConfigError
from orderly.model import ReceivedMessage
from orderly.once.rule import (
    RECENT,
    Arrival,
    Naming,
    Owner,
    RowPlace,
    Verdict,
    arrival,
    report_refusal,
)

Command = Sequence[str | bytes | int | float]
"""A Redis command and its arguments: ("INCRBY", "balance:7", 5)."""

_SCRIPT = files("orderly.once").joinpath("apply.lua").read_text()


class RedisOnce:
    """Runs commands in Redis once for each message.

        once = RedisOnce()
        once.apply(redis, message, context, ("INCRBY", "balance:7", 5))

    For one Redis server 6 or newer, and its replicas. In a Redis Cluster, row and data would have
    to be in one slot. Thread-safe. Redis does not roll back: if a command fails, the earlier ones
    have run, and the message comes again. So put the command that can fail first, or use only one.

    Args:
        prefix: of the Redis keys of the rows; each row is a hash.
        cluster, generation, redact: as of `Once`.

    Raises:
        ConfigError: an invalid generation, or an argument of another kind.
    """

    def __init__(
        self,
        *,
        prefix: str = "orderly:once:",
        cluster: str = "",
        generation: int = 0,
        redact: bool = False,
    ) -> None:
        check_text("prefix", prefix)
        self._prefix = prefix
        self._naming = Naming(cluster, generation, redact)

    def apply(
        self, client: Redis, message: ReceivedMessage, context: Owner, *commands: Command
    ) -> Verdict:
        """Run the commands and record it, both or neither, unless the effect is there already.

        Args:
            client: redis-py's, not a pipeline.
            message: with a batch, pass its messages one by one, in order.
            context: of the handler's call.
            commands: at least one.

        Returns:
            APPLY; or REPEAT or DUPLICATE, each with an event. Acknowledge after any of them.

        Raises:
            LockLost, QueueRecreated: as `Once.apply`; no command was run.
            ConfigError: no command, an invalid command, or a key that cannot be stored.
            redis.RedisError: Redis' failure, or a command's; the message comes again.
        """
        _check_client(client, Redis, Pipeline)
        place, came = self._naming.place(message, context), arrival(message, context)
        words = _arguments(came, commands)
        script = client.register_script(_SCRIPT)
        reply = script(keys=[self._row(place)], args=words)
        return _verdict(reply, place, message, came, redact=context.redact_keys)

    async def apply_async(
        self, client: AsyncRedis, message: ReceivedMessage, context: Owner, *commands: Command
    ) -> Verdict:
        """The same as `apply`, with `redis.asyncio`."""
        _check_client(client, AsyncRedis, AsyncPipeline)
        place, came = self._naming.place(message, context), arrival(message, context)
        words = _arguments(came, commands)
        script = client.register_script(_SCRIPT)
        reply = await script(keys=[self._row(place)], args=words)
        return _verdict(reply, place, message, came, redact=context.redact_keys)

    def _row(self, place: RowPlace) -> str:
        parts = (place.group, place.cluster, place.topic, place.broker, place.queue_id)
        return self._prefix + json.dumps([*parts, place.generation, place.key])


def _check_client(client: object, kind: type, pipeline: type) -> None:
    if not isinstance(client, kind) or isinstance(client, pipeline):
        raise ConfigError(
            f"client must be a {kind.__module__}.{kind.__name__}, and not a pipeline; it is a"
            f" {type(client).__name__}"
        )


def _arguments(came: Arrival, commands: Sequence[Command]) -> list[Any]:
    if not commands or not all(map(_is_command, commands)):
        raise ConfigError(
            'commands must be Redis commands, each a sequence of words such as ("INCRBY",'
            ' "balance:7", 5): a row in Redis cannot make an effect outside of Redis happen only'
            " once"
        )
    token = "" if came.token is None else came.token
    words = [part for command in commands for part in (len(command), *command)]
    return [came.offset, token, came.stored_at, came.message_id or "", RECENT, *words]


def _is_command(command: object) -> bool:
    """Whether it is words that Redis takes, one at least."""
    if not isinstance(command, Sequence) or isinstance(command, str | bytes) or not command:
        return False
    return all(isinstance(word, str | bytes | int | float) for word in command)


def _verdict(
    reply: Any, place: RowPlace, message: ReceivedMessage, came: Arrival, *, redact: bool
) -> Verdict:
    name, offset, token = (part.decode() if isinstance(part, bytes) else part for part in reply)
    verdict = Verdict(name)
    found = (int(offset), int(token) if token != "" else None)
    report_refusal(verdict, place, message, came.token, found, redact=redact)
    return verdict
