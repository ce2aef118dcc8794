"""The decoders, each with what draws a hostile input for it."""

import contextlib
import math
import random
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial

import lz4.frame
import zstandard

from orderly.errors import ProtocolError, RouteError, UndecodableBody
from orderly.model import ReceivedMessage, UndecodableMessage
from orderly.protocol import (
    groups,
    heartbeat,
    java_json,
    locks,
    offsets,
    properties,
    pull,
    route,
    statistics,
    topics,
)
from orderly.protocol.compression import sent_body
from orderly.protocol.ext import from_ext
from orderly.protocol.frame import FrameDecoder, read_json_header
from orderly.protocol.groups import decode_group_config, decode_group_configs
from orderly.protocol.heartbeat import decode_heartbeat
from orderly.protocol.members import decode_direct_result, decode_running_info
from orderly.protocol.park_record import PARKED, decode_control, read_park
from orderly.protocol.pull import decode_filter_check
from orderly.protocol.send import decode_batch
from orderly.protocol.state_record import decode_record
from orderly.protocol.stored_message import (
    MAGIC_V1,
    MAGIC_V2,
    decode_pull,
    encode_stored_message,
)
from orderly.protocol.topics import decode_topic_config, decode_topic_configs
from orderly.selectors import layout_of, queues_of
from tests.fuzz import seeds
from tests.fuzz.mutation import mutate_bytes, mutate_json

MAX_BODY = 1 << 20  # bytes; one message's limit here, so that a bomb costs a case little
MAX_FRAME = 4096  # bytes; some of the seeds are larger, and dropped


@dataclass(frozen=True, slots=True)
class Target:
    """A decoder under test.

    Attributes:
        decode: takes bytes; what it returns does not matter.
        draw: makes bytes of a random generator.
        extra: bytes of memory it may use whatever the size of the input: its own limits.
    """

    decode: Callable
    draw: Callable
    extra: int = 0


def decode_frames(data):
    """Read a stream whole and in pieces: the outcome is the same, and a broken one stays so."""
    whole = _outcome(data, [data])
    cutting = random.Random(zlib.crc32(data))
    pieces, at = [], 0
    while at < len(data):
        size = cutting.choice((1, 3, 4, 7, 64, 4096))
        pieces.append(data[at : at + size])
        at += size
    assert whole == _outcome(data, pieces), "the cutting of the stream matters"


def _outcome(data, pieces):
    decoder, commands = FrameDecoder(MAX_FRAME), []
    try:
        for piece in pieces:
            commands += decoder.receive(piece)
    except ProtocolError:
        try:
            decoder.receive(seeds.FRAMES[0])
        except ProtocolError:
            return None
        raise AssertionError("a decoder that raised takes more input") from None
    return commands


def decode_stored(data):
    """Read a pull; whatever cannot be read is there as it is stored, and its body says so."""
    drawn = zlib.crc32(data)
    end, room = (None, 18, 19, 2**63 - 1)[drawn % 4], (math.inf, 0, 5000)[drawn % 3]
    messages, left_at, _ = decode_pull(data, "broker-a", end=end, room=room, max_body=MAX_BODY)
    assert messages or left_at is None, "nothing was read, and the next pull reads no more"
    assert all(message.held_size >= len(message.raw_body) for message in messages)
    for message in messages:
        if isinstance(message, UndecodableMessage):
            assert message.raw_body in data
            assert sent_body(message)[0] == message.raw_body
            try:
                _ = message.body
            except UndecodableBody:
                continue
            raise AssertionError("there is a body after all")


def _draw_frame(rng):
    """A wounded frame, or a whole one with a wounded header: the lengths fit."""
    if rng.random() < 0.4:
        return mutate_bytes(rng, seeds.FRAMES) + rng.choice((b"", rng.choice(seeds.FRAMES)))
    frame = rng.choice(seeds.FRAMES)
    kind, size = frame[4], int.from_bytes(frame[5:8])
    mutate = mutate_bytes if kind else mutate_json
    header = mutate(rng, [frame[8 : 8 + size]])
    body = rng.choice(seeds.BODIES)
    prefix = struct.pack(">II", 4 + len(header) + len(body), kind << 24 | len(header))
    return prefix + header + body


def _zstd(plain):
    return zstandard.ZstdCompressor().compress(plain)


_COMPRESSORS = {1: lz4.frame.compress, 2: _zstd}  # the others: zlib, or unknown


@cache
def _bomb(compress, size):
    return compress(b"\0" * size)


def _stored(rng):
    """A stored message with a right checksum; what is in its body may be broken."""
    body, flag = mutate_bytes(rng, seeds.BATCHES), rng.choice((0, 192, 192, 64, 128))
    if rng.random() < 0.4:
        kind = rng.randrange(8)
        compress = _COMPRESSORS.get(kind, zlib.compress)
        bomb = _bomb(compress, MAX_BODY + rng.choice((-1, 0, 1)))
        packed = rng.choice((compress(body), bomb))
        body = packed if rng.random() < 0.3 else mutate_bytes(rng, [packed])
        flag |= 1 | kind << 8
    told = {"UNIQ_KEY": "id-1"}
    if rng.random() < 0.7:
        told["INNER_NUM"] = rng.choice(("2", "2", "4", "4", "1", "-1", "65537", "9" * 99, "two"))
    hosts = ("10.0.0.1:50000", "[::1]:50000", "10.0.0.2:-1")
    message = ReceivedMessage(
        rng.choice(seeds.QUEUES), rng.choice((0, 17, 2**63 - 1)), body, told,
        "", "", 1e9, 1e9, rng.choice(hosts), rng.choice(hosts), 0, 0, flag, 4096, 0,
    )  # fmt: skip
    return encode_stored_message(message, magic=rng.choice((MAGIC_V1, MAGIC_V2)))


def _draw_stored(rng):
    stored = [_stored(rng) for _ in range(rng.choice((1, 1, 2, 3)))]
    return mutate_bytes(rng, stored) if rng.random() < 0.4 else b"".join(stored)


def _draw_line(records, rng):
    """A wounded record, or one with a wounded content and a right checksum."""
    if rng.random() < 0.3:
        return mutate_bytes(rng, records)
    mark, version, kind, _, content = rng.choice(records).split(b" ", 4)
    content = mutate_json(rng, [content])
    return b"%s %s %s %08x " % (mark, version, kind, zlib.crc32(kind + content)) + content


def read_parked_property(data):
    """Read a message of a park topic that says `data` of itself."""
    told = {PARKED: str(data, "utf-8", "replace")}
    message = replace(seeds.ORIGINAL, properties=seeds.PARKED.properties | told)
    read_park(message)


def _draw_header(cls, rng):
    return mutate_json(rng, [seeds.JSON_HEADERS[cls]])


def _read_header(cls, data):
    from_ext(cls, read_json_header(data).ext)


def _use_route(data):
    """Read a route, and make all the queues that it stands for."""
    found = route.decode_route("orders", data)
    found.read_queues()
    found.write_queues()
    with contextlib.suppress(RouteError):
        queues_of(layout_of(found), "orders")


_JSON_DECODERS = {
    "route": _use_route,
    "clusters": route.decode_cluster_info,
    "locked": locks.decode_locked,
    "lock request": locks.decode_lock_request,
    "consumer ids": heartbeat.decode_consumer_ids,
    "topics": topics.decode_topic_list,
    "groups": groups.decode_group_list,
    "topic stats": statistics.decode_topic_stats,
    "consume stats": statistics.decode_consume_stats,
    "connections": statistics.decode_connections,
    "heartbeat": decode_heartbeat,
    "running info": decode_running_info,
    "reset": offsets.decode_reset,
    "member offsets": offsets.decode_member_offsets,
    "offsets of members": offsets.decode_offsets_of_members,
    "direct result": decode_direct_result,
    "group config": decode_group_config,
    "group configs": decode_group_configs,
    "committed": offsets.decode_committed,
    "time spans": statistics.decode_time_spans,
    "consume queue": pull.decode_consume_queue,
    "filter check": decode_filter_check,
    "topic config": decode_topic_config,
    "topic configs": decode_topic_configs,
}
_EXTRA = {"route": 48 << 20}  # 65,536 queues, thrice
_ALL_JSON = [seed for group in seeds.JSON.values() for seed in group]

# The decoders of bytes come several times: there is more in them to get wrong.
TARGETS = {
    "frame": Target(decode_frames, _draw_frame),
    "stored message": Target(decode_stored, _draw_stored, 64 << 20),
    "batch": Target(decode_batch, lambda rng: mutate_bytes(rng, seeds.BATCHES)),
    "properties": Target(
        properties.decode_properties, lambda rng: mutate_bytes(rng, seeds.PROPERTIES)
    ),
    "state record": Target(decode_record, partial(_draw_line, seeds.STATE_RECORDS)),
    "park record": Target(decode_control, partial(_draw_line, seeds.CONTROL_RECORDS)),
    "parked message": Target(
        read_parked_property,
        lambda rng: mutate_json(rng, [seeds.PARKED.properties[PARKED].encode()]),
    ),
    "json": Target(java_json.loads, lambda rng: mutate_json(rng, _ALL_JSON)),
    **{
        name: Target(decode, partial(mutate_json, seeds=seeds.JSON[name]), _EXTRA.get(name, 0))
        for name, decode in _JSON_DECODERS.items()
    },
    **{
        f"header {cls.__name__}": Target(partial(_read_header, cls), partial(_draw_header, cls))
        for cls in seeds.header_classes()
    },
}
WEIGHTS = dict.fromkeys(TARGETS, 1) | {
    "frame": 40, "stored message": 40, "batch": 10, "properties": 5,
    "state record": 10, "park record": 10, "parked message": 10, "json": 20,
} | dict.fromkeys(_JSON_DECODERS, 8)  # fmt: skip
