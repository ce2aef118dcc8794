import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import ProtocolError
from orderly.protocol.java_json import MAX_DEPTH, MAX_JSON, ObjectKeyed, dumps, loads

text = st.text(st.characters(codec="utf-8"), max_size=10)
scalars = st.none() | st.booleans() | st.integers() | text
flat_objects = st.dictionaries(text, scalars, max_size=3)
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4)
)
blanks = st.sampled_from(["", " ", "\n\t "])


def canonical(value):
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


@given(documents, blanks)
def test_standard_json_is_read_as_such(document, blank):
    encoded = json.dumps(document, ensure_ascii=False, separators=(f"{blank},", f":{blank}"))
    assert loads(encoded.encode()) == document


@given(
    st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1) | text | flat_objects, documents)), blanks
)
def test_bare_integers_and_objects_are_read_as_keys(pairs, blank):
    entries = [
        f"{blank}{json.dumps(key)}{blank}:{blank}{json.dumps(value)}{blank}" for key, value in pairs
    ]
    expected = {key if isinstance(key, str) else canonical(key): value for key, value in pairs}
    assert loads(("{" + ",".join(entries) + "}").encode()) == expected


def test_fastjsons_forms_are_read_wherever_they_stand():
    data = (
        b'{"a":{0:"127.0.0.1:10911",-1:"x"},"b":[{{"topic":"t","queueId":0}:{"n":1}}],'
        b'"c":"{0:\\"not a key\\"}"}'
    )
    assert loads(data) == {
        "a": {"0": "127.0.0.1:10911", "-1": "x"},
        "b": [{'{"queueId":0,"topic":"t"}': {"n": 1}}],
        "c": '{0:"not a key"}',
    }


longs = st.integers(-(2**63), 2**63 - 1)


@given(st.dictionaries(longs, longs, max_size=5), blanks)
def test_tables_of_numbers_are_read_at_any_depth(table, blank):
    entries = ",".join(f"{key}:{blank}{value}" for key, value in table.items())
    expected = {str(key): value for key, value in table.items()}
    assert loads(f'{{0:[{{"a":{{{entries}}}}}]}}'.encode()) == {"0": [{"a": expected}]}


@pytest.mark.parametrize(
    "inner", ["1:2:3", "1:", ":1", "a:1", "1:a", "1:2,", ",1:2", "1:2 3", "1:02", "--1:2", "1e2:3"]
)
def test_what_only_looks_like_a_table_of_numbers_is_refused(inner):
    with pytest.raises(ProtocolError, match="not JSON"):
        loads(f'{{"a":{{0:1}},"b":{{{inner}}}}}'.encode())


def test_braces_in_texts_end_no_object():
    inner = {"a": "}", "b": "{0:1}", "c": "]["}
    assert loads(f"{{0:{json.dumps(inner)}}}".encode()) == {"0": inner}


def test_an_object_key_can_be_read_again():
    ((key, _),) = loads(b'{{"topic":"\xe8\xae\xa2","queueId":0}:1}').items()
    assert loads(key.encode()) == {"topic": "\u8ba2", "queueId": 0}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" ",
        b"{",
        b"nothing",
        b"NaN",
        b"{0:Infinity}",
        b"{,}",
        b"{0:1,}",
        b"[1,]",
        b"[1 2]",
        b"{0 1}",
        b"{0:1} x",
        b'{"a":1 "b":2}',
        b"{[1]:2}",
        b"{true:1}",
        b"{null:1}",
        b"{1.5:1}",
        b"\xff",
        b'{"a":"\xff"}',
        b"9" * 5000,
        b"{0:" + b"9" * 5000 + b"}",
    ],
    ids=lambda data: repr(data[:20]),
)
def test_what_is_no_json_is_a_protocol_error(data):
    with pytest.raises(ProtocolError, match="not JSON"):
        loads(data)


@pytest.mark.parametrize(
    "opening",
    [b"[", b'{"a":', b"{0:", b"{{", b'{{"a":', b"{{{0:", b'[{"a":[{0:'],
    ids=repr,
)
@pytest.mark.parametrize("times", [40, 200, 900, 300_000])
def test_deep_nesting_is_a_protocol_error(opening, times):
    with pytest.raises(ProtocolError):
        loads(opening * times)


@pytest.mark.parametrize("times", [MAX_DEPTH + 1, 200, 900])
def test_well_formed_but_too_deep_is_a_protocol_error(times):
    with pytest.raises(ProtocolError):
        loads(b"[" * times + b"]" * times)
    with pytest.raises(ProtocolError):
        loads(b"{0:" * times + b"1" + b"}" * times)


def test_moderate_depth_is_read():
    nested = loads(b"{0:" * 50 + b"1" + b"}" * 50)
    for _ in range(50):
        nested = nested["0"]
    assert nested == 1


def test_keys_inside_keys_cannot_blow_up():
    data = b"{" * 60 + b'"a":1' + b"}:1" * 59 + b"}"
    with pytest.raises(ProtocolError):
        loads(data)


def test_more_than_the_limit_is_refused():
    with pytest.raises(ProtocolError, match="at most"):
        loads(b" " * (MAX_JSON + 1))


@given(st.binary(max_size=100) | st.text('{}[]:,"\\01a ', max_size=60).map(str.encode))
def test_garbage_gives_a_value_or_a_protocol_error(data):
    try:
        loads(data)
    except ProtocolError:
        return


@given(documents)
def test_what_is_written_is_read_again(document):
    assert loads(dumps(document)) == document


@given(st.lists(st.tuples(flat_objects, documents), unique_by=lambda pair: canonical(pair[0])))
def test_object_keys_are_written_as_objects_wherever_they_stand(pairs):
    expected = {canonical(key): value for key, value in pairs}
    for wrap in (lambda inner: inner, lambda inner: [inner], lambda inner: {"table": inner}):
        assert loads(dumps(wrap(ObjectKeyed(tuple(pairs))))) == wrap(expected)


def test_an_object_key_has_no_quotes():
    table = ObjectKeyed((({"topic": "t", "queueId": 0}, 7),))
    assert dumps({"offsets": table}) == b'{"offsets":{{"topic":"t","queueId":0}:7}}'


@pytest.mark.parametrize("value", ["\ud800", {"\ud800": 1}, float("nan"), [float("inf")]])
def test_what_json_cannot_say_is_refused_when_written(value):
    with pytest.raises(ProtocolError):
        dumps(value)
