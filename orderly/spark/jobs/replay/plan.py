"""What a replay sends, and from where on to look for its copies: kept, to go on with. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orderly.errors import ConfigError, ProtocolError
from orderly.model import MessageQueue
from orderly.protocol.json_values import load_object, object_in, text_in
from orderly.spark.offsets import text as offsets_json

SCHEMA = "orderly.spark.replay-plan/v1"


@dataclass(frozen=True, slots=True)
class Plan:
    """A replay that has begun.

    Attributes:
        ends: where the table's queues ended when it began: what came later takes no part.
        target: the topic sent to.
        wanted: what was asked for; a plan is gone on with only by the same.
        starts: where the target's queues ended before the first message was sent: what was sent
            lies behind.
    """

    ends: Mapping[MessageQueue, int]
    target: str
    wanted: Mapping[str, Any]
    starts: Mapping[MessageQueue, int]


def to_text(plan: Plan) -> str:
    """Write it."""
    fields = {
        "schema": SCHEMA,
        "ends": offsets_json.to_object(plan.ends),
        "target": plan.target,
        "wanted": dict(plan.wanted),
        "starts": offsets_json.to_object(plan.starts),
    }
    return json.dumps(fields, indent=1)


def from_text(text: str) -> Plan:
    """Read it.

    Raises:
        ConfigError: it is none, or a newer release's.
    """
    try:
        fields = load_object(text.encode())
        if text_in(fields, "schema") != SCHEMA:
            raise ConfigError(f"replay.json is no {SCHEMA}: give another directory")
        ends, starts = (
            offsets_json.from_object(object_in(fields, name), name) for name in ("ends", "starts")
        )
        return Plan(ends, text_in(fields, "target"), object_in(fields, "wanted"), starts)
    except ProtocolError as error:
        raise ConfigError(
            f"replay.json cannot be read ({error}): give another directory"
        ) from error


def check_same(plan: Plan, wanted: Mapping[str, Any]) -> None:
    """See that a begun replay is gone on with by those who began it.

    Raises:
        ConfigError: something else is asked for now.
    """
    asked = json.loads(json.dumps(wanted))
    differs = sorted(
        name
        for name in asked.keys() | plan.wanted.keys()
        if asked.get(name) != plan.wanted.get(name)
    )
    if differs:
        raise ConfigError(
            f"the directory holds a replay that was begun with another {', '.join(differs)}: ask"
            " for the same to go on with it, or give another directory"
        )
