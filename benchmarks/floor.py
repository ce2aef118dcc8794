"""The floor: one raw socket that only sends, or only pulls and decodes.

No routing, retries, locks, threads, checksums or callbacks: what the wire and the codec cost in
Python. Requests are rendered once, apart from the few fields that change. Pulling keeps one request
of each queue on its way on one connection, and decodes the body AND the properties of each message.

    python -m benchmarks.floor consume BROKER TOPIC COUNT WARM
    python -m benchmarks.floor send BROKER TOPIC COUNT WARM SIZE
    python -m benchmarks.floor check BROKER TOPIC COUNT
"""

import contextlib
import json
import math
import socket
import sys
import time
from struct import Struct

from benchmarks.peers.programs.meter import KEYS, TIMEOUT, Meter, body, key, tell

QUEUES = 8
PULL, SEND = 11, 310  # request codes
SUBSCRIPTION = 4  # this request brings its filter along; an empty pull is answered at once

# size, magic, checksum, queue id, flag, queue offset, physical offset, sys flag, born time and
# host, store time and host, reconsume times, transaction offset, body size
HEAD = Struct(">iIiiiqqiq8sq8siqi")


class RawSocket:
    """A blocking socket that writes requests and reads replies as (header, body)."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=TIMEOUT)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._read = b""
        self.write = self._socket.sendall
        self.close = self._socket.close

    def replies(self):
        """Whole replies, as they come; waits for the first."""
        data = self._read + self._socket.recv(1 << 18)
        at = 0
        while len(data) - at >= 4 and len(data) - at >= (
            size := 4 + int.from_bytes(data[at : at + 4])
        ):
            header_end = at + 8 + int.from_bytes(data[at + 5 : at + 8])  # one byte is the format
            yield data[at + 8 : header_end], data[header_end : at + size]
            at += size
        self._read = data[at:]


def frame(code, opaque, fields, content=b""):
    """A request with a JSON header."""
    header = json.dumps(
        {"code": code, "language": "PYTHON", "opaque": opaque, "flag": 0, "extFields": fields}
    ).encode()
    return framed(header, content)


def framed(header, content=b""):
    sizes = (4 + len(header) + len(content)).to_bytes(4), len(header).to_bytes(4)
    return b"".join((*sizes, header, content))


def send(broker, topic, count, warm, size):
    """Send messages one by one, queues in turn, each acknowledged before the next."""
    meter, text = Meter(int(count), int(warm)), body(int(size)).encode()
    with contextlib.closing(RawSocket(broker)) as raw:
        for number in range(int(count)):
            properties = f"UNIQ_KEY\1{number:032X}\2__SHARDINGKEY\1{key(number)}\2WAIT\1true\2"
            raw.write(framed(_send_header(topic, number % QUEUES, properties), text))
            ((header, _),) = raw.replies()
            assert b'"code":0,' in header, header
            meter.tick()
    tell(**meter.result())


def _send_header(topic, queue_id, properties):
    fields = {
        "a": "floor",
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "e": str(queue_id),
        "f": "0",
        "g": str(int(time.time() * 1000)),
        "h": "0",
        "i": properties,
    }
    ext = json.dumps(fields)
    return b'{"code":%d,"language":"PYTHON","opaque":1,"flag":0,"extFields":%b}' % (
        SEND,
        ext.encode(),
    )


def consume(broker, topic, count, warm):
    """Pull and decode a backlog."""
    meter = Meter(int(count), int(warm))
    for messages in pulled(broker, topic, int(count)):
        for _ in messages:
            meter.tick()
    tell(**meter.result())


def check(broker, topic, count):
    """Judge the order of messages whose bodies are 0, 1, 2, … up to `count`, keys in turn."""
    replies = pulled(broker, topic)
    messages, repeats, inversions = judge(int(content) for reply in replies for content, _ in reply)
    missing = int(count) - (messages - repeats)
    assert missing == 0, f"{missing} messages fewer than were acknowledged"
    tell(messages=messages, inversions=inversions, repeats=repeats)


def judge(numbers):
    """Count (messages, those stored twice, those that came behind a later one of their key).

    A send that timed out is repeated, so its message may be stored twice; that is allowed.
    """
    latest, skipped, messages, repeats, inversions = {}, set(), 0, 0, 0
    for number in numbers:
        messages += 1
        name = number % KEYS
        expected = latest.get(name, name - KEYS) + KEYS
        if number >= expected:
            skipped.update(range(expected, number, KEYS))
            latest[name] = number
        elif number in skipped:
            skipped.remove(number)
            inversions += 1
        else:
            repeats += 1
    return messages, repeats, inversions


def pulled(broker, topic, count=math.inf):
    """The messages of each reply, in lists, until there were `count`, or all; in queue order."""
    with contextlib.closing(RawSocket(broker)) as raw:
        for queue_id in range(QUEUES):
            raw.write(_pull(topic, queue_id, 0))
        waiting = QUEUES
        while waiting and count > 0:
            for header, content in raw.replies():
                reply = json.loads(header)
                if reply["code"]:  # nothing more in this queue
                    waiting -= 1
                    continue
                queue_id = reply["opaque"]
                raw.write(_pull(topic, queue_id, reply["extFields"]["nextBeginOffset"]))
                messages = decode(content)
                count -= len(messages)
                yield messages
        assert count <= 0 or count == math.inf, f"{count} messages fewer than there should be"


def _pull(topic, queue_id, offset):
    return frame(
        PULL,
        queue_id,
        {
            "consumerGroup": "floor",
            "topic": topic,
            "queueId": queue_id,
            "queueOffset": offset,
            "maxMsgNums": 32,
            "sysFlag": SUBSCRIPTION,
            "commitOffset": 0,
            "suspendTimeoutMillis": 0,
            "subscription": "*",
            "subVersion": 0,
            "expressionType": "TAG",
        },
    )


def decode(data):
    """Bodies and properties of the messages of a reply."""
    messages, at = [], 0
    while at < len(data):
        size, *_, body_size = HEAD.unpack_from(data, at)
        body_at = at + HEAD.size
        topic_at = body_at + body_size
        properties_at = topic_at + 1 + data[topic_at] + 2
        text = data[properties_at : at + size].decode()
        properties = dict([pair.split("\1", 1) for pair in text.split("\2") if pair])
        messages.append((data[body_at:topic_at], properties))
        at += size
    return messages


if __name__ == "__main__":
    {work.__name__: work for work in (consume, send, check)}[sys.argv[1]](*sys.argv[2:])
