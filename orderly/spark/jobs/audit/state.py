"""The state of an audit that goes on: summaries on disk, and which of them count.

    DIR/state.json                      the pointer: which batch wrote each bucket last
    DIR/parts/batch=7/bucket=3/…        one row for each key and queue, by hash of the key
    DIR/checkpoint/                     Spark's: what was read

A batch writes the buckets that it touches anew, under its own number, and counts once the pointer
names them. So a batch that is run again, wherever it was killed, changes nothing twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from orderly.errors import ConfigError
from orderly.spark.jobs.audit.settings import AuditSettings
from orderly.spark.jobs.files import Files

CHECKPOINT, PARTS = "checkpoint", "parts"
BUCKETS = 32
_POINTER = "state.json"
_SCHEMA = "orderly.spark.audit-state/v1"
_SELECTING = ("topic", "topics", "topicpattern", "assign", "tags")


@dataclass(frozen=True, slots=True)
class State:
    """What the pointer says.

    Attributes:
        query: the id of Spark's query, which is that of its checkpoint.
        judged: what all batches have in common: topic, tags, property.
        batch: the last one that counts; -1: none yet.
        buckets: the batch that wrote each bucket last.
    """

    query: str
    judged: Mapping[str, Any]
    batch: int = -1
    buckets: Mapping[int, int] = field(default_factory=dict)

    def after(self, batch: int, touched: list[int]) -> Self:
        """What it is once a batch has written these buckets."""
        return replace(self, batch=batch, buckets={**self.buckets, **dict.fromkeys(touched, batch)})

    def folder(self, bucket: int) -> str:
        """Where a bucket's rows are."""
        return f"{PARTS}/batch={self.buckets[bucket]}/bucket={bucket}"


def judged(settings: AuditSettings) -> dict[str, Any]:
    """What can't change from one batch to the next."""
    chosen = {name.lower(): text for name, text in settings.source.items()}
    return {
        **{name: chosen[name] for name in _SELECTING if name in chosen},
        "seq_property": settings.seq_property,
        "redact_keys": settings.redact_keys,
    }


def load(files: Files) -> State | None:
    """Read the pointer; None: nothing is there yet.

    Raises:
        ConfigError: it is none of ours.
    """
    text = files.read(_POINTER)
    if text is None:
        return None
    try:
        return _state(json.loads(text))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{files.root}/{_POINTER} is no state of an audit: give another directory"
        ) from error


def _state(found: dict[str, Any]) -> State:
    if found["schema"] != _SCHEMA:
        raise ValueError(found["schema"])
    buckets = {int(bucket): int(batch) for bucket, batch in found["buckets"].items()}
    return State(str(found["query"]), found["judged"], int(found["batch"]), buckets)


def save(files: Files, state: State) -> None:
    """Make a state count."""
    found = {
        "schema": _SCHEMA,
        "query": state.query,
        "batch": state.batch,
        "judged": dict(state.judged),
        "buckets": {str(bucket): batch for bucket, batch in sorted(state.buckets.items())},
    }
    files.write(_POINTER, json.dumps(found, indent=2) + "\n")


def check_not_lost(files: Files, batch: int) -> None:
    """Refuse to begin anew where earlier batches have left rows, and no pointer tells of them.

    Args:
        files: of the directory, which has no pointer.
        batch: the one to fold in; its own rows are those of an attempt that was cut short.

    Raises:
        ConfigError: the pointer is lost, and with it which rows count.
    """
    if any(name.startswith("batch=") and name != f"batch={batch}" for name in files.names(PARTS)):
        raise ConfigError(
            f"{files.root}/{_POINTER} is gone, and so is what was judged before: put"
            f" .{_POINTER}.part in its place if it is there and whole, or remove the whole"
            " directory and begin anew"
        )


def sweep(files: Files, state: State) -> None:
    """Remove what no longer counts: buckets written anew, and batches cut short."""
    kept = {state.folder(bucket) for bucket in state.buckets}
    for batch in files.names(PARTS):
        folders = [f"{PARTS}/{batch}/{name}" for name in files.names(f"{PARTS}/{batch}")]
        if not kept.intersection(folders):
            files.remove(f"{PARTS}/{batch}")
        else:
            for folder in folders:
                if "bucket=" in folder and folder not in kept:
                    files.remove(folder)


def check_same(files: Files, state: State, query: str, settings: AuditSettings) -> None:
    """Refuse to mix what was judged in another way, or read by another checkpoint.

    Raises:
        ConfigError: the directory holds the state of something else.
    """
    now = judged(settings)
    if state.judged != now:
        names = sorted(n for n in {*now, *state.judged} if now.get(n) != state.judged.get(n))
        raise ConfigError(
            f"the state in {files.root} is of an audit with another {names[0]}"
            f" ({state.judged.get(names[0])!r}): give another directory"
        )
    if query and state.query != query:
        raise ConfigError(
            f"the checkpoint in {files.root} is not the one that the state was made with, so it"
            " would judge messages twice: remove the whole directory and begin anew"
        )
