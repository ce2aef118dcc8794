"""The floor: one raw socket, one request at a time, nothing else.

No routing, retries, locks, threads or callbacks: what the wire and the codec alone cost. Run as a
program it prints its own rates.
"""

import contextlib
import socket
import time

from benchmarks.setting import Setting, main
from orderly.protocol.codes import ResponseCode
from orderly.protocol.command import RemotingCommand, request
from orderly.protocol.ext import from_ext, to_ext
from orderly.protocol.frame import FrameDecoder, encode_frame
from orderly.protocol.headers import PullMessage, PullReply, SendMessage
from orderly.protocol.properties import encode_properties
from orderly.protocol.stored_message import decode_messages


class RawSocket:
    """A blocking socket that sends a frame and reads frames until one is complete."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=10)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._decoder = FrameDecoder()

    def ask(self, command: RemotingCommand) -> RemotingCommand:
        self._socket.sendall(encode_frame(command))
        while True:
            commands = self._decoder.receive(self._socket.recv(256 * 1024))
            if commands:
                return commands[0]

    def close(self):
        self._socket.close()


def send(setting: Setting, topic: str, count: int, body: bytes) -> float:
    """Send `count` messages one by one, queues in turn; returns seconds."""
    properties = encode_properties({"UNIQ_KEY": "0" * 32, "__SHARDINGKEY": "key-1", "WAIT": "true"})
    with contextlib.closing(RawSocket(setting.broker_address)) as raw:
        started = time.perf_counter()
        for number in range(count):
            header = SendMessage(
                producer_group="floor",
                topic=topic,
                queue_id=number % 8,
                born_timestamp=int(time.time() * 1000),
                properties=properties,
            )
            while (reply := raw.ask(request(header.code, to_ext(header), body))).code:
                assert reply.code == ResponseCode.SYSTEM_BUSY, reply.remark  # not executed
        return time.perf_counter() - started


def consume(setting: Setting, topic: str, count: int) -> float:
    """Pull and decode `count` messages, 32 a request, queue after queue; returns seconds."""
    with contextlib.closing(RawSocket(setting.broker_address)) as raw:
        started = time.perf_counter()
        pulled = sum(_drain(raw, topic, queue_id) for queue_id in range(8))
        assert pulled == count, f"{pulled} of {count} messages"
        return time.perf_counter() - started


def _drain(raw, topic, queue_id):
    offset = pulled = 0
    while True:
        header = PullMessage(
            consumer_group="floor",
            topic=topic,
            queue_id=queue_id,
            queue_offset=offset,
            sys_flag=4,
            subscription="*",
        )
        reply = raw.ask(request(header.code, to_ext(header)))
        if reply.code != ResponseCode.SUCCESS:
            return pulled
        pulled += len(decode_messages(reply.body, "broker-a"))
        offset = from_ext(PullReply, reply.ext).next_begin_offset


def measure(setting: Setting):
    """The floor alone: its rates."""
    topic = setting.topic()
    body = b"x" * setting.size
    sent = [setting.count / send(setting, topic, setting.count, body)]
    pulled = [setting.count / consume(setting, topic, setting.count)]
    return {"floor_send": sent, "floor_consume": pulled}, {}


if __name__ == "__main__":
    main(measure, __doc__)
