import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import ProtocolError
from orderly.protocol.codes import Language, RequestCode
from orderly.protocol.frame import (
    MAX_DROPPED,
    MAX_FRAME,
    MAX_HEADER,
    FrameDecoder,
    RemotingCommand,
    Serializer,
    encode_frame,
    reply_to,
    request,
)

valid_text = st.text(st.characters(codec="utf-8"), max_size=30)
int32 = st.integers(-(2**31), 2**31 - 1)
commands = st.builds(
    RemotingCommand,
    code=st.integers(-(2**15), 2**15 - 1),
    request_id=int32,
    flag=st.integers(0, 3),
    remark=st.none() | valid_text.filter(bool),
    ext=st.dictionaries(valid_text.filter(bool), valid_text, max_size=6),
    body=st.binary(max_size=200),
    language=st.sampled_from(Language),
    version=st.integers(0, 2**15 - 1),
)
frames = st.builds(encode_frame, commands, st.sampled_from(Serializer))


def decode_one(frame):
    (command,) = FrameDecoder().receive(frame)
    return command


def json_frame(header, body=b""):
    data = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack(">II", 4 + len(data) + len(body), len(data)) + data + body


@given(commands, st.sampled_from(Serializer))
def test_a_command_survives_the_wire_in_either_serialisation(command, serializer):
    assert decode_one(encode_frame(command, serializer)) == command


@given(st.lists(st.tuples(commands, st.sampled_from(Serializer)), max_size=5), st.data())
def test_any_cutting_of_the_stream_gives_the_same_commands(sent, data):
    stream = b"".join(encode_frame(command, serializer) for command, serializer in sent)
    decoder, received = FrameDecoder(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        received += decoder.receive(stream[:size])
        stream = stream[size:]
    assert received == [command for command, _ in sent]


def test_a_byte_at_a_time_completes_the_frame_with_its_last_byte():
    frame = encode_frame(request(RequestCode.HEART_BEAT, body=b"{}"))
    decoder = FrameDecoder()
    assert [len(decoder.receive(frame[i : i + 1])) for i in range(len(frame))] == [
        *[0] * (len(frame) - 1),
        1,
    ]


def test_the_json_frame_has_the_layout_java_reads():
    frame = encode_frame(request(RequestCode.PULL_MESSAGE, {"topic": "t"}, b"body"))
    total, mark = struct.unpack_from(">II", frame)
    assert total == len(frame) - 4
    assert mark >> 24 == 0
    header = json.loads(frame[8 : 8 + (mark & 0xFFFFFF)])
    assert header == {
        "code": 11,
        "language": "PYTHON",
        "version": 513,
        "opaque": 0,
        "flag": 0,
        "serializeTypeCurrentRPC": "JSON",
        "extFields": {"topic": "t"},
    }
    assert frame.endswith(b"}body")


def test_the_binary_frame_has_the_layout_java_reads():
    command = RemotingCommand(
        310, request_id=7, flag=2, remark="hi", ext={"a": "bc"}, body=b"B", language=3, version=513
    )
    assert encode_frame(command, Serializer.ROCKETMQ).hex(" ") == (
        "00 00 00 25 01 00 00 20"  # total, serialiser and header length
        " 01 36 03 02 01 00 00 00 07 00 00 00 02"  # code, language, version, opaque, flag
        " 00 00 00 02 68 69"  # remark
        " 00 00 00 09 00 01 61 00 00 00 02 62 63"  # ext
        " 42"
    )


def test_a_reply_of_a_real_broker_without_optional_fields_is_read():
    command = decode_one(
        json_frame(
            b'{"code":0,"flag":1,"language":"JAVA","opaque":4,'
            b'"serializeTypeCurrentRPC":"JSON","version":513}',
            b"xyz",
        )
    )
    assert command == RemotingCommand(
        0, request_id=4, flag=1, remark=None, ext={}, body=b"xyz", language=Language.JAVA
    )
    assert command.is_response


def test_an_unknown_language_is_other_and_a_null_field_is_absent():
    command = decode_one(json_frame({"code": 1, "language": "COBOL", "extFields": {"a": None}}))
    assert (command.language, command.ext, command.version) == (Language.OTHER, {}, 0)


def test_numbers_that_the_cpp_client_writes_into_ext_fields_are_taken_as_text():
    command = decode_one(json_frame({"code": 310, "extFields": {"d": 4, "e": -1, "j": "0"}}))
    assert command.ext == {"d": "4", "e": "-1", "j": "0"}


def test_flags_tell_requests_replies_and_oneway_requests_apart():
    asked = request(RequestCode.LOCK_BATCH_MQ, {"x": "1"}, b"q")
    asked.request_id = 42
    answer = reply_to(asked, 1, remark="no", ext={"y": "2"}, body=b"r")
    assert (asked.is_response, asked.is_oneway) == (False, False)
    assert request(15, oneway=True).is_oneway
    assert answer == RemotingCommand(
        1, request_id=42, flag=1, remark="no", ext={"y": "2"}, body=b"r"
    )


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(b"HTTP/1.1 400 Bad Request", id="another protocol"),
        pytest.param(struct.pack(">I", MAX_DROPPED + 1), id="frame far too large"),
        pytest.param(
            struct.pack(">II", MAX_FRAME + 1, 2 << 24), id="too large, unknown serialiser"
        ),
        pytest.param(
            struct.pack(">II", MAX_FRAME + 1, MAX_HEADER + 1), id="too large, with such a header"
        ),
        pytest.param(struct.pack(">I", 3) + b"abc", id="frame too small for a header size"),
        pytest.param(struct.pack(">II", 4, 5), id="header longer than the frame"),
        pytest.param(struct.pack(">II", 4, 0), id="no header"),
        pytest.param(struct.pack(">II", 6, 2 << 24 | 2) + b"{}", id="unknown serialiser"),
        pytest.param(json_frame({}), id="no code"),
        pytest.param(json_frame({"code": "0"}), id="code is a string"),
        pytest.param(json_frame({"code": True}), id="code is a boolean"),
        pytest.param(json_frame({"code": 2**31}), id="code beyond 32 bits"),
        pytest.param(json_frame({"code": 0, "remark": 5}), id="remark is a number"),
        pytest.param(json_frame({"code": 0, "extFields": []}), id="ext is a list"),
        pytest.param(json_frame({"code": 0, "extFields": {"a": 1.5}}), id="ext holds a fraction"),
        pytest.param(json_frame(b"[]"), id="header is a list"),
        pytest.param(json_frame(b'{"code":0,"x":' + b"[" * 100_000), id="header far too deep"),
        pytest.param(json_frame(b'{"code":' + b"9" * 5000 + b"}"), id="endless number"),
        pytest.param(json_frame(b'{"code":0,"remark":"\xff"}'), id="not UTF-8"),
        pytest.param(struct.pack(">II", 25, 1 << 24 | 21) + bytes(20) + b"\x01", id="ext cut"),
        pytest.param(
            struct.pack(">II", 25, 1 << 24 | 21) + bytes(13) + b"\x7f\xff\xff\xff" + bytes(4),
            id="remark longer than the header",
        ),
        pytest.param(
            struct.pack(">II", 25, 1 << 24 | 21) + bytes(13) + b"\xff\xff\xff\xff" + bytes(4),
            id="remark of negative length",
        ),
        pytest.param(
            struct.pack(">II", 31, 1 << 24 | 27) + bytes(20) + b"\x06" + bytes(6),
            id="field without a name",
        ),
    ],
)
def test_a_broken_frame_is_a_protocol_error_and_ends_the_stream(frame):
    decoder = FrameDecoder()
    with pytest.raises(ProtocolError):
        decoder.receive(frame)
    with pytest.raises(ProtocolError, match="broke before"):
        decoder.receive(encode_frame(request(34)))


def test_a_frame_far_beyond_the_limit_is_refused_before_it_is_awaited():
    with pytest.raises(ProtocolError, match="a frame of 268435457 bytes"):
        FrameDecoder(max_frame=1000).receive(struct.pack(">I", MAX_DROPPED + 1))


@pytest.mark.parametrize("step", [1, 7, 1000, 10_000])
@pytest.mark.parametrize("serializer", Serializer)
def test_a_frame_beyond_the_limit_is_dropped_and_the_stream_goes_on(serializer, step):
    large = request(11, {"a": "b"}, bytes(2000))
    small = encode_frame(request(34, body=b"small"), serializer)
    stream = small + encode_frame(large, serializer) * 2 + small
    decoder, commands = FrameDecoder(max_frame=1000), []
    for at in range(0, len(stream), step):
        commands += decoder.receive(stream[at : at + step])
        assert len(decoder._buffer) < 1000, "what is dropped is not kept"
    assert [len(command.body) for command in commands] == [5, 0, 0, 5]
    size = len(encode_frame(large, serializer)) - 4
    assert [command.dropped for command in commands] == [0, size, size, 0]
    assert commands[1].ext == {"a": "b"}
    assert not decoder.dropping


def test_the_command_of_a_dropped_frame_comes_with_its_header():
    frame = encode_frame(request(11, body=bytes(2000)))
    decoder = FrameDecoder(max_frame=1000)
    assert decoder.receive(frame[:-2000])[0].dropped == len(frame) - 4
    assert decoder.dropping
    whole = encode_frame(request(34))
    assert decoder.whole(whole) is None, "it is the body of the other one"
    assert decoder.receive(bytes(2000)) == []
    assert not decoder.dropping
    assert decoder.whole(whole).code == 34


@given(st.binary(max_size=300))
def test_garbage_gives_commands_or_a_protocol_error(data):
    try:
        FrameDecoder().receive(data)
    except ProtocolError:
        return


@given(frames, st.data())
def test_a_damaged_frame_gives_commands_or_a_protocol_error(frame, data):
    damaged = bytearray(frame)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    try:
        FrameDecoder().receive(bytes(damaged))
    except ProtocolError:
        return


@pytest.mark.parametrize("serializer", Serializer)
def test_a_lone_surrogate_is_refused_when_written(serializer):
    with pytest.raises(ProtocolError):
        encode_frame(request(310, {"i": "\ud800"}), serializer)


def test_a_code_beyond_16_bits_needs_json():
    command = request(200_050)
    assert decode_one(encode_frame(command)).code == 200_050
    with pytest.raises(ProtocolError, match="send it as JSON"):
        encode_frame(command, Serializer.ROCKETMQ)


@pytest.mark.parametrize("serializer", Serializer)
def test_what_a_server_would_refuse_is_not_written(serializer):
    with pytest.raises(ProtocolError, match="at most"):
        encode_frame(request(310, body=bytes(MAX_FRAME)), serializer)
    with pytest.raises(ProtocolError, match="at most"):
        encode_frame(request(310, {"i": "x" * 2**20}), serializer)
