"""Bytes that outlive a release: what is in state and park topics, in running info, and on a disk.

Members of other releases read them, so each is made from fixed values, and read back from the
golden file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from orderly.consumer import local_offsets
from orderly.model import MessageQueue
from orderly.protocol.members import (
    QueueInfo,
    QueueReport,
    RunningInfo,
    queue_reports,
    report_texts,
)
from orderly.protocol.park_record import (
    Command,
    Control,
    ParkDetails,
    ParkMessage,
    Released,
    Result,
    Verb,
    control_message,
    decode_control,
    encode_control,
    park_message,
    read_park,
)
from orderly.protocol.parked_key import ParkedKey
from orderly.protocol.properties import decode_properties, encode_properties
from orderly.protocol.state_record import (
    Acquire,
    Confirm,
    Entry,
    SentAgain,
    Trying,
    decode_record,
    encode_record,
)
from tests.support.messages import message
from tests.support.owners import stored

QUEUE = MessageQueue("orders", "broker-a", 3)
AT = 1_795_219_200  # seconds since the epoch: 2026-11-21


class Frozen(NamedTuple):
    """One thing that is stored.

    Attributes:
        value: as the library has it.
        written: its bytes.
        read: reads bytes as `value`.
    """

    value: Any
    written: bytes
    read: Callable[[bytes], Any]


STATE: dict[str, Acquire | Confirm | Entry | Trying] = {
    "acquire": Acquire("10.0.0.1@7#1"),
    "confirm": Confirm("10.0.0.1@7#1", 41),
    "entry, a change": Entry(
        owner="10.0.0.1@7#1", token=41, number=1, previous=42, epoch=3, low=1000,
        previous_low=990, runs=((1002, 1005), (1007, 1008)),
    ),
    "entry, a part with everything": Entry(
        owner="10.0.0.1@7#1", token=41, number=2, previous=43, epoch=3, low=1000,
        previous_low=990, runs=((1002, 1005),), closed=True, chunk=1, chunks=3,
        parked=(ParkedKey("order-1", 1001, 6, 2, 200, 1, 1006), ParkedKey(7, 1003, 8)),
        released=("order-2", 8), commands=9, deaths=2, suspects=((1001, 1), (1006, 2)),
        trying=1001, window=(980, 985, 1010), landmark=(1000, AT * 1000), generation=2,
        token_time=AT * 1000 + 1,
        sent_again=(SentAgain(998, 1 << 62, 7, AT), SentAgain(1004, 5, 8, AT + 1)),
    ),
    "trying": Trying("10.0.0.1@7#1", 41, 1001),
    "trying, over": Trying("10.0.0.1@7#1", 41, None),
}  # fmt: skip
CONTROL: dict[str, Control] = {
    **{
        f"command, {verb}": Command("c-1", verb, key, "ann@host", AT * 1000)
        for verb, key in zip(Verb, ("order-1", 7, "größe", "order-2", ""), strict=True)
    },
    "result": Result("c-1", done=True, settled=2),
    "result, stopped": Result("c-1", False, 1, 1003, "ValueError", ((1001, "ok"), (1003, "f-1"))),
    "released": Released("order-1", 1006, 41),
}
ORIGINAL = replace(
    message(1001, queue=QUEUE),
    body=b"\x00caf\xc3\xa9",
    properties={
        "__SHARDINGKEY": "order-1", "TAGS": "paid", "KEYS": "k1 k2", "UNIQ_KEY": "ID-1",
        "DELAY": "3", "mine": "yes",
    },
    born_time=AT + 0.25,
    store_time=AT + 0.5,
    reconsume_times=2,
    flag=5,
)  # fmt: skip
DETAILS = ParkDetails(
    key="order-1", reason="poison", attempts=3, fingerprint="ValueError at a.py:3",
    first_error="ValueError: 1", last_error="ValueError: 2", parked_at=AT + 60.0, token=41,
)  # fmt: skip
NEWS = QueueReport(
    why="SUSPENDED", offset=1001, key="order-1", attempts=3, failing_for=12.34,
    fingerprint="0123456789abcdef", reason="ValueError", seconds=1.26, parked=2,
    because="not enough tries",
)  # fmt: skip
OFFSETS = {QUEUE: 1000, MessageQueue("orders", "broker-b", 0): 7}
OWNER = {"group": "shipping", "instance": "one"}


def records() -> dict[str, Frozen]:
    """All of them, by name."""
    return dict(_all())


def _all() -> Iterator[tuple[str, Frozen]]:
    for name, record in STATE.items():
        yield f"state topic: {name}", Frozen(record, encode_record(record), decode_record)
    for name, control in CONTROL.items():
        yield f"park topic: {name}", Frozen(control, encode_control(control), decode_control)
        if name in ("command, release", "result", "released"):
            yield (
                f"park topic: {name}, message",
                Frozen(control, _sent(control_message(control)), _received),
            )
    parked = read_park(stored(park_message(ORIGINAL, DETAILS)))
    yield (
        "park topic: parked message",
        Frozen(parked, _sent(park_message(ORIGINAL, DETAILS)), _received),
    )
    [text] = report_texts([(QUEUE, NEWS)]).values()
    yield "running info: news of a queue", Frozen(_rounded(NEWS), text.encode(), _news)
    written = local_offsets._encode(OWNER, OFFSETS, datetime.fromtimestamp(AT, UTC))
    read = partial(local_offsets._decode, OWNER, path=Path("offsets.json"))
    yield "file: offsets of a broadcasting member", Frozen(OFFSETS, written, read)


def facts() -> Iterator[str]:
    """The lines of the golden file: the bytes, and the same for people."""
    for name, frozen in _all():
        yield f"{name} | bytes {frozen.written.hex()}"
        yield f"{name} | text {frozen.written!r}"


def _sent(content: ParkMessage) -> bytes:
    """What a message is in the topic: its properties, in an order of ours, and its body."""
    properties = dict(sorted(content.properties.items()))
    return encode_properties(properties).encode() + b"\n" + content.body


def _received(data: bytes) -> Any:
    properties, _, body = data.partition(b"\n")
    own = decode_properties(properties)
    return read_park(stored(ParkMessage(own, body, ORIGINAL.sys_flag, ORIGINAL.flag)))


def _news(data: bytes) -> QueueReport:
    texts = {f"orderly {QUEUE}": data.decode()}
    return queue_reports(_info(texts))[QUEUE]


def _info(texts: dict[str, str]) -> RunningInfo:
    return RunningInfo({}, user=texts, queues={QUEUE: QueueInfo()})


def _rounded(news: QueueReport) -> QueueReport:
    return replace(news, failing_for=12.3, seconds=1.3)
