"""The commands that replay what a group has set aside, as lines for a shell. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

_IDS = 50  # of dead letters in one command


def script(
    group: str,
    parked: Sequence[tuple[str, str, bool]],
    letters: Sequence[str],
    left_out: int = 0,
    letters_left_out: int = 0,
) -> str:
    """A script: first what is parked, key by key, then the dead letters as they were given up.

    Args:
        group: the consumer group.
        parked: topic, key, and whether the key is a number; in the order in which they are to go.
        letters: ids of dead letters, in order.
        left_out: keys that are not among them.
        letters_left_out: dead letters that are not among them.
    """
    lines = [
        "#!/bin/sh",
        "# Look at each before you run it, after the cause is mended; a failure ends the script.",
        "# Connection settings: those of `orderly context`, or ORDERLY_NAMESRV.",
        "set -e",
        *_releases(group, parked, left_out),
        *_replays(group, letters, letters_left_out),
    ]
    return "\n".join(lines) + "\n"


def _releases(group: str, parked: Sequence[tuple[str, str, bool]], left_out: int) -> Iterator[str]:
    if parked:
        yield f"# {len(parked)} parked keys: the owners of their queues run them in order."
    for topic, key, is_int in parked:
        kind = ["--int"] if is_int else []
        yield _line("orderly", "parked", "release", "--topic", topic, *kind, "--", group, key)
    if left_out:
        yield f"# {left_out} more keys: orderly parked release --all takes all of them"


def _replays(group: str, letters: Sequence[str], left_out: int) -> Iterator[str]:
    if letters:
        yield f"# {len(letters)} dead letters, as they were given up, which may be another order"
        yield "# than their key's: each becomes a new message at its topic's end."
        yield "# What their keys did since stays done: `orderly spark replay` can send into another"
        yield "# topic."
    for start in range(0, len(letters), _IDS):
        ids = letters[start : start + _IDS]
        yield _line("orderly", "dlq", "replay", "--ids", ",".join(ids), "--", group)
    if left_out:
        yield f"# {left_out} more dead letters: they stand in the table replay_list"


def _line(*words: str) -> str:
    return " ".join(map(shlex.quote, words))
