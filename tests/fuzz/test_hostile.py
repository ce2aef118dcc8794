"""Inputs made to hurt, one by one: each is refused soon, and in bounded memory."""

import json
import struct
import subprocess
import sys
import time
import tracemalloc
import zlib
from functools import cache

import lz4.frame
import pytest
import zstandard

from orderly.errors import ProtocolError, RouteError, UndecodableBody
from orderly.model import MessageQueue, ReceivedMessage
from orderly.protocol.frame import (
    MAX_DROPPED,
    MAX_FRAME,
    MAX_HEADER,
    FrameDecoder,
    encode_frame,
    read_binary_header,
    read_json_header,
    request,
)
from orderly.protocol.java_json import MAX_JSON, loads
from orderly.protocol.members import decode_running_info
from orderly.protocol.offsets import decode_committed
from orderly.protocol.properties import decode_properties
from orderly.protocol.route import decode_cluster_info, decode_route
from orderly.protocol.send import decode_batch, encode_batch
from orderly.protocol.stored_message import (
    MAX_BODY,
    decode_messages,
    decode_pull,
    encode_stored_message,
)
from orderly.protocol.topics import decode_topic_configs
from orderly.selectors import layout_of

MIB = 1 << 20


def peak_of(decode, *args):
    """The most memory that a refusal took, in bytes."""
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            decode(*args)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("total", [0, 3, MAX_DROPPED + 1, 2**31 - 1, 2**31, 2**32 - 1])
def test_a_frame_that_announces_an_impossible_length_is_refused_before_it_is_awaited(total):
    assert peak_of(FrameDecoder().receive, struct.pack(">I", total)) < MIB


@pytest.mark.parametrize("header", [5, MAX_HEADER + 1, 0xFFFFFF])
@pytest.mark.parametrize("kind", [0, 1])
def test_a_header_longer_than_its_frame_is_refused(header, kind):
    frame = struct.pack(">II", 8, kind << 24 | header) + b"1234"
    assert peak_of(FrameDecoder().receive, frame) < MIB


@pytest.mark.parametrize("size", [-7, -1, -(2**31), 2**31 - 1, 4])
def test_a_binary_header_whose_field_reaches_elsewhere_is_refused(size):
    """-7 leads back to the field's own beginning: it would be read for ever."""
    field = struct.pack(">h1si", 1, b"a", size) + b"bcd"
    header = struct.pack(">hBhiii", 0, 0, 0, 0, 0, 0) + struct.pack(">i", len(field)) + field
    assert peak_of(read_binary_header, header) < MIB


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1])
def test_a_binary_header_whose_remark_reaches_elsewhere_is_refused(size):
    header = struct.pack(">hBhiii", 0, 0, 0, 0, 0, size) + bytes(8)
    assert peak_of(read_binary_header, header) < MIB


def test_a_frame_of_zeros_as_long_as_is_allowed_is_refused():
    frame = struct.pack(">I", MAX_FRAME) + bytes(MAX_FRAME)
    assert peak_of(FrameDecoder().receive, frame) < 4 * MAX_FRAME


def test_a_frame_that_comes_a_little_at_a_time_costs_its_size():
    decoder, piece = FrameDecoder(), bytes(4096)
    tracemalloc.start()
    decoder.receive(struct.pack(">I", MAX_FRAME))
    for _ in range(MAX_FRAME // len(piece) - 1):
        assert decoder.receive(piece) == []
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * MAX_FRAME


def test_a_decoder_that_raised_takes_nothing_more():
    decoder = FrameDecoder()
    with pytest.raises(ProtocolError):
        decoder.receive(bytes(4))
    for _ in range(2):
        with pytest.raises(ProtocolError, match="close it"):
            decoder.receive(b"")


DEEP = [b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000, b"{" * 100_000]
DEEP += [b"{0:" * 100_000, b'{0:1,"a":' + b"[" * 100_000]


@pytest.mark.parametrize("text", DEEP, ids=[text[:12].decode() for text in DEEP])
@pytest.mark.parametrize("read", [loads, read_json_header])
def test_json_nested_100_000_deep_is_refused(read, text):
    assert peak_of(read, text) < 16 * MIB


@pytest.mark.parametrize("depth", [65, 900, 980, 990, 1000])
@pytest.mark.parametrize("field", ["code", "opaque", "remark", "extFields"])
def test_a_header_field_nested_about_as_deep_as_python_can_is_refused(depth, field):
    text = f'{{"code":0,"{field}":{"[" * depth}{"]" * depth}}}'.encode()
    assert peak_of(read_json_header, text) < MIB


def test_json_over_the_limit_is_refused_unread():
    assert peak_of(loads, b"[" + b" " * MAX_JSON + b"]") < MIB


@pytest.mark.parametrize("end", ["{}]", "!"])
def test_json_of_nothing_but_empty_objects_takes_a_bounded_multiple_of_its_size(end):
    text = b'{"":[' + b"{}," * 50_000 + end.encode()
    assert peak_of(loads, text) < 40 * len(text) + MIB


FLAT = [b'{0:{"":1' + b",0:1" * 20_000, b"{0:1" + b",0:1" * 20_000, b"{0:{0:" * 30 + b"1" * 10**6]
FLAT += [b'{"offsetTable":{"t@g":{' + b"0:1," * 20_000, b"{0:[" + b'{"}":{0:1},' * 10_000]


@pytest.mark.parametrize("text", FLAT, ids=[text[:12].decode() for text in FLAT])
def test_tables_without_an_end_are_refused_after_one_reading(text):
    assert peak_of(decode_committed, text) < 60 * len(text)


def test_a_number_that_no_float_holds_is_refused():
    number = b"1" + b"0" * 400
    assert peak_of(decode_running_info, b'{"statusTable":{"t":{"pullRT":%s}}}' % number) < MIB


def route_of(*queues, brokers=("b",), order_conf=""):
    """A route of (broker, read, write) that name servers could answer."""
    rows = [
        {"brokerName": name, "readQueueNums": read, "writeQueueNums": write, "perm": 6}
        for name, read, write in queues
    ]
    places = [{"brokerName": name, "brokerAddrs": {"0": "10.0.0.1:1"}} for name in brokers]
    fields = {"queueDatas": rows, "brokerDatas": places, "orderTopicConf": order_conf}
    return json.dumps(fields, separators=(",", ":")).encode()


MANY = {
    "40 brokers": [(f"b{i}", 65536, 65536) for i in range(40)],
    "one broker 40 times": [("b", 65536, 65536)] * 40,
    "one more than there may be": [("a", 1, 8), ("b", 8, 65529)],
}


@pytest.mark.parametrize("queues", MANY.values(), ids=MANY)
def test_a_route_of_too_many_queues_is_refused(queues):
    answer = route_of(*queues)
    with pytest.raises(ProtocolError, match="queues of topic 'orders' are listed; at most 65536"):
        decode_route("orders", answer)
    assert peak_of(decode_route, "orders", answer) < 10 * len(answer) + MIB


def test_a_route_of_too_many_entries_is_refused_if_they_have_no_queues():
    with pytest.raises(ProtocolError, match="65537 queues"):
        decode_route("orders", route_of(*[("b", 0, 0)] * 65537))


def test_a_route_of_as_many_brokers_and_queues_as_may_be_is_read_in_one_go():
    names = [f"b{i}" for i in range(4096)]
    answer = route_of(*[(names[-1], 1, 1)] * 65536, brokers=names)
    begun = time.process_time()
    route = decode_route("orders", answer)
    decoded = time.process_time()
    assert len(route.read_queues()) == len(route.write_queues()) == 65536
    built = time.process_time() - decoded
    assert built < 20 * (decoded - begun), "each broker was looked for among all"


@pytest.mark.parametrize("count", [4097, 40_000])
def test_more_brokers_than_anybody_has_are_refused(count):
    names = [f"b{i}" for i in range(count)]
    with pytest.raises(ProtocolError, match="addresses of brokers are listed; at most 4096"):
        decode_route("orders", route_of(("b0", 8, 8), brokers=names))
    table = {name: {"brokerName": name, "brokerAddrs": {}} for name in names}
    with pytest.raises(ProtocolError, match="at most 4096"):
        decode_cluster_info(json.dumps({"brokerAddrTable": table}).encode())


def test_one_broker_of_too_many_addresses_is_refused():
    addresses = {str(i): f"10.0.0.1:{i}" for i in range(5000)}
    broker = {"brokerName": "b", "brokerAddrs": addresses}
    with pytest.raises(ProtocolError, match="at most 4096"):
        decode_route("orders", json.dumps({"brokerDatas": [broker]}).encode())


@pytest.mark.parametrize(
    "conf", ["b:65537", "a:40000;b:40000", "b:999999999", f"b:{'9' * 5000}", ";".join("ab" * 9999)]
)
def test_an_order_configuration_of_too_many_queues_is_refused(conf):
    route = decode_route("orders", route_of(("b", 8, 8), order_conf=conf))
    tracemalloc.start()
    with pytest.raises(RouteError, match="order configuration of orders is broken") as raised:
        layout_of(route)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * MIB
    assert len(str(raised.value)) < 1000


def test_a_broker_that_lists_topics_of_countless_queues_is_refused():
    topic = {"topicName": "t", "readQueueNums": 65536, "writeQueueNums": 65536, "perm": 6}
    table = {f"t{i}": topic for i in range(17)}
    body = json.dumps({"topicConfigTable": table}).encode()
    with pytest.raises(ProtocolError, match="queues of 17 topics are listed; at most 1048576"):
        decode_topic_configs(body)


def stored(body, flag, times=1, number=None, offset=0):
    queue = MessageQueue("orders", "broker-a", 0)
    host = "10.0.0.1:1"
    properties = {} if number is None else {"INNER_NUM": str(number)}
    message = ReceivedMessage(
        queue, offset, body, properties, "", "", 0, 0, host, host, 0, 0, flag, 0, 0
    )
    return encode_stored_message(message) * times


def zstd_without_size(data):
    packer = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    return packer.compress(data) + packer.flush()


def fast_zlib(data):
    return zlib.compress(data, 1)


@cache
def bomb_of(compress):
    return compress(bytes(2 * MAX_BODY))


BOMBS = {
    "zlib": (fast_zlib, 0x301),
    "old zlib": (fast_zlib, 0x001),
    "lz4": (lz4.frame.compress, 0x101),
    "lz4 that claims no size": (lambda d: lz4.frame.compress(d, store_size=False), 0x101),
    "zstd": (zstandard.ZstdCompressor().compress, 0x201),
    "zstd that claims no size": (zstd_without_size, 0x201),
}


@pytest.mark.parametrize(("compress", "flag"), BOMBS.values(), ids=BOMBS)
def test_a_decompression_bomb_costs_no_more_than_the_limit(compress, flag):
    bomb = stored(bomb_of(compress), flag)
    tracemalloc.start()
    (message,) = decode_messages(bomb, "b")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    with pytest.raises(UndecodableBody):
        _ = message.body
    assert peak < 2 * MAX_BODY + len(bomb) * 4 + MIB


def test_bombs_of_one_pull_cost_the_work_of_four_bodies_together():
    bombs = stored(bomb_of(fast_zlib), 0x301, times=32)
    messages, left_at, _ = decode_pull(bombs, "b")
    assert (len(messages), left_at) == (4, 0)


def test_a_frame_that_is_dropped_costs_no_memory():
    decoder, piece = FrameDecoder(), bytes(64 * 1024)
    header = encode_frame(request(11))[4:]
    tracemalloc.start()
    count = MAX_DROPPED // len(piece) - 1
    (command,) = decoder.receive(struct.pack(">I", len(header) + count * len(piece)) + header)
    for _ in range(count):
        decoder.receive(piece)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert command.dropped > 200 * MIB
    assert not decoder.dropping
    assert peak < MIB


@pytest.mark.parametrize(("compress", "flag"), BOMBS.values(), ids=BOMBS)
def test_bombs_that_each_keep_the_limit_may_not_exceed_four_times_it_together(compress, flag):
    bombs = stored(compress(bytes(4 * MIB)), flag, times=5)
    assert len(decode_messages(bombs[: len(bombs) // 5 * 4], "b", max_body=4 * MIB)) == 4
    tracemalloc.start()
    with pytest.raises(ProtocolError):
        decode_messages(bombs, "b", max_body=4 * MIB)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * 4 * MIB


_LIMITED = """
import resource, sys
from orderly.errors import ProtocolError
from orderly.protocol.compression import decompress
kind, data = int(sys.argv[1]), sys.stdin.buffer.read()
decompress(kind, bytes.fromhex(sys.argv[2]), 1 << 20)  # the library is loaded
before = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (before + (384 << 20),) * 2)
try:
    decompress(kind, data, 64 << 20)
except ProtocolError:
    print("refused")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="RLIMIT_AS is Linux's")
@pytest.mark.parametrize(("compress", "flag"), BOMBS.values(), ids=BOMBS)
def test_memory_that_python_does_not_count_is_bounded_too(compress, flag):
    """What C libraries allocate by themselves counts against the process's address space."""
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, str(flag >> 8), compress(b"x").hex()],
        input=bomb_of(compress),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == b"refused\n", done.stderr.decode()


def test_a_stored_topic_that_is_no_text_is_refused():
    assert peak_of(decode_messages, stored(b"x", 0).replace(b"orders", b"\xff" * 6), "b") < MIB


def test_messages_of_a_batch_that_overlap_are_refused():
    batch = bytearray(encode_batch([(b"one", "", 0), (b"two", "", 0)]))
    half = len(batch) // 2
    for size in (half - 1, half + 1, 0, -half, len(batch), 2**31 - 1, -(2**31)):
        struct.pack_into(">i", batch, 0, size)
        assert peak_of(decode_batch, bytes(batch)) < MIB


@pytest.mark.parametrize("body", [-1, -20, -22, 4, 2**31 - 1, -(2**31)])
def test_a_body_of_a_batch_that_reaches_elsewhere_is_refused(body):
    batch = bytearray(encode_batch([(b"one", "", 0), (b"two", "", 0)]))
    struct.pack_into(">i", batch, 16, body)
    if 0 < 22 + body < 2**31:
        struct.pack_into(">i", batch, 0, 22 + body)  # the sum fits
    assert peak_of(decode_batch, bytes(batch)) < MIB


def test_a_batch_of_a_million_empty_messages_is_refused():
    batch = encode_batch([(b"", "", 0)]) * 1_000_000
    assert peak_of(decode_batch, batch) < 32 * MIB


def test_inner_batches_of_a_pull_hold_no_more_than_65536_messages_together():
    batch, of = encode_batch([(b"", "", 0)]) * 40_000, {"flag": 64 | 128, "number": 40_000}
    pull = stored(batch, **of) + stored(batch, **of, offset=40_000)
    with pytest.raises(ProtocolError, match="65536"):
        decode_messages(pull, "b")


@pytest.mark.parametrize("mark", [b"\x01", b"\x02", b"a\x01b\x02"])
def test_properties_of_a_million_separators_are_refused(mark):
    assert peak_of(decode_properties, mark * 1_000_000) < MIB


@pytest.mark.parametrize("mark", [b"\x01", b"\x02"])
def test_properties_of_as_many_separators_as_fit_are_none(mark):
    assert decode_properties(mark * 32767) == {}


def test_a_header_of_a_mebibyte_of_names_is_read_in_bounded_memory():
    fields = {f"{i:x}": "" for i in range(80_000)}
    header = json.dumps({"code": 0, "extFields": fields}, separators=(",", ":")).encode()
    assert len(header) <= MAX_HEADER
    tracemalloc.start()
    assert len(read_json_header(header).ext) == len(fields)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * MIB
