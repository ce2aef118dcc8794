"""`orderly parked` on a real broker: what it shows is on record, what it asks for is answered."""

import base64
import json
import threading

import pytest

from orderly.protocol.park_record import Parked, Result, Verb, park_message
from tests.support.owners import HandOwner

BODIES = (b"one", b"two", b"three")


@pytest.fixture
def owner(client, producer, group, topic):
    """An owner that has parked three messages of "a" and one of the number 7, on record."""
    owner = HandOwner(client, producer, group, topic).take()
    owner.park("a", *BODIES, reason="poison", attempts=3, fingerprint="f1", first_error="E: x")
    owner.park(7, b"\x1b[31mred", reason="\x1b[2Jpoison", attempts=1)
    owner.record()
    return owner


def listed(orderly, group, *more):
    code, out, _ = orderly("parked", "list", group, "-o", "json", *more)
    return code, json.loads(out)


def test_list_tells_what_is_on_record(orderly, group, topic, owner):
    code, found = listed(orderly, group)
    assert (code, found["unknown"]) == (0, [])
    number, text = found["keys"]
    assert (number["key"], number["messages"]) == (7, 1)
    assert (text["key"], text["messages"], text["recorded"]) == ("a", 3, 3)
    assert (text["first_offset"], text["last_offset"]) == (0, 2)
    assert (text["reason"], text["attempts"], text["fingerprint"]) == ("poison", 3, "f1")
    assert (text["first_error"], text["last_error"]) == ("E: x", None)
    assert text["since"] < text["kept_until"]
    table = orderly("parked", "list", group, "--topic", topic)[1]
    assert "\x1b" not in table
    assert len(table.splitlines()) == 3


def test_what_is_not_on_record_is_not_parked(orderly, group, owner):
    owner.park("orphan", b"never recorded", reason="x")
    assert [key["key"] for key in listed(orderly, group)[1]["keys"]] == [7, "a"]
    code, _, err = orderly("parked", "show", group, "orphan")
    assert code == 3
    assert "key 'orphan' is not parked" in err


def test_nothing_parked_is_said_only_where_it_is_known(orderly, client, producer, group, topic):
    for args in ([], ["-t", topic]):
        code, _, err = orderly("parked", "list", group, *args)
        assert code == 3
        assert f"lists no park topic of group {group}" in err
    HandOwner(client, producer, group, topic)
    code, _, err = orderly("parked", "list", group)
    assert code == 0
    assert f"0 parked keys of group {group} in 1 queue read on broker-a" in err


def test_a_damaged_record_is_unknown_and_not_nothing(orderly, client, group, owner):
    owner.damage()
    code, found = listed(orderly, group)
    assert code == 3
    assert found["keys"] == []
    assert "damaged" in found["unknown"][0]["error"]
    table = orderly("parked", "list", group)[1]
    assert "UNKNOWN" in table
    code, _, err = orderly("parked", "release", group, "a", "--timeout", "1")
    assert code == 3
    assert "whether key 'a' is parked" in err


def test_after_a_kill_no_loss_is_told_that_is_none(orderly, group, owner):
    """The owner ends between the record of what is parked and the one that says it is done."""
    owner.low = 0
    owner.record()
    parked = [record for record in owner.records() if isinstance(record, Parked)]
    heir = owner.take()
    for found in parked:
        at = heir.append(park_message(found.original, found.details))
        heir.table.note(found.key, found.offset, at, found.original.stored_size)
    heir.record()
    code, _, err = orderly("parked", "list", group)
    assert (code, "gone" in err) == (0, False), err
    counts = [
        (k["key"], k["messages"], k["recorded"], k["gone"])
        for k in listed(orderly, group)[1]["keys"]
    ]
    assert counts == [(7, 1, 1, 0), ("a", 3, 3, 0)]


def test_show_gives_the_messages_in_the_order_of_their_source(orderly, group, owner):
    code, out, _ = orderly("parked", "show", group, "a", "-o", "json")
    assert code == 0
    found = json.loads(out)["messages"]
    assert [(m["offset"], m["body"], m["tags"]) for m in found] == [
        (0, "one", "red"),
        (1, "two", "red"),
        (2, "three", "red"),
    ]
    table = orderly("parked", "show", group, "7", "--int")[1]
    assert "red" in table
    assert "\x1b" not in table
    assert orderly("parked", "show", group, "7")[0] == 3, "the text is another key"


def test_release_sends_a_command_and_waits_for_its_end(orderly, group, owner):
    at = owner.end()
    answers = (
        lambda c: Result("of another command", done=True),
        lambda c: Result(c.id, done=False, settled=1),
        lambda c: Result(c.id, done=True, settled=3),
    )
    command = []
    answering = threading.Thread(target=lambda: command.append(owner.answer(at, *answers)))
    answering.start()
    code, out, err = orderly("parked", "release", group, "a", "-o", "json")
    answering.join(30)
    assert code == 0, err
    (done,) = json.loads(out)["keys"]
    assert (done["key"], done["settled"], done["failed_at"]) == ("a", 3, None)
    assert (command[0].verb, command[0].key) == (Verb.RELEASE, "a")


@pytest.mark.parametrize(
    ("verb", "args", "result", "expected"),
    [
        (Verb.RELEASE, ["release", "a"], {"failed_at": 1, "reason": "again"}, 1),
        (Verb.TRY, ["release", "a", "--dry-run"], {"outcomes": ((0, "ok"), (1, "ok"))}, 0),
        (Verb.TRY, ["release", "a", "--dry-run"], {"outcomes": ((0, "ok"), (1, "f2"))}, 1),
        (Verb.TRY, ["release", "a", "--dry-run"], {"reason": "no dry runs here"}, 3),
        (Verb.DROP, ["drop", "a", "--yes"], {"settled": 3}, 0),
    ],
)
def test_the_exit_code_says_how_it_ended(orderly, group, owner, verb, args, result, expected):
    at = owner.end()
    told = []
    answer = lambda: told.append(owner.answer(at, lambda c: Result(c.id, done=True, **result)))  # noqa: E731
    answering = threading.Thread(target=answer)
    answering.start()
    code, out, err = orderly("parked", args[0], group, *args[1:])
    answering.join(30)
    assert (code, told[0].verb) == (expected, verb)
    assert f"{verb} of key 'a' is sent to the owner of" in err
    assert str(result.get("reason", "a")) in out


def test_without_an_owner_the_command_stays_and_that_is_said(orderly, group, owner):
    at = owner.end()
    code, out, err = orderly("parked", "release", group, "a", "--timeout", "1")
    assert (code, out) == (3, "")
    assert "no member of the group is online" in err
    assert "stays in the park topic" in err
    assert [r.verb for r in owner.records(at)] == [Verb.RELEASE]


def test_what_cannot_be_done_sends_nothing(orderly, group, owner):
    at = owner.end()
    for args in (
        ["release", group, "nobody"],
        ["release", group],
        ["release", group, "a", "--all"],
        ["drop", group, "a"],
        ["release", group, "a", "--int"],
    ):
        code, out, err = orderly("parked", *args)
        assert code == 3, args
        shows = args[0] == "drop"  # what it would drop, and how much of it never failed; it asks
        assert bool(out) == shows
        *told, error = err.splitlines()
        assert bool(told) == shows
        assert error.startswith("error: ")
    assert owner.end() == at


# --- copies ------------------------------------------------------------------------------------


def test_export_writes_everything_or_nothing(orderly, group, owner, tmp_path):
    file = tmp_path / "parked.jsonl"
    code, out, err = orderly("parked", "export", group, "--out", str(file))
    assert (code, out) == (0, "")
    assert f"4 messages written to {file}" in err
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line["key"], line["offset"]) for line in lines] == [
        (7, 3),
        ("a", 0),
        ("a", 1),
        ("a", 2),
    ]
    assert [base64.b64decode(line["body_base64"]) for line in lines[1:]] == list(BODIES)
    assert lines[1]["properties"]["TAGS"] == "red"
    assert (lines[1]["reason"], lines[1]["attempts"]) == ("poison", 3)
    owner.damage()
    before = file.read_bytes()
    assert orderly("parked", "export", group, "--out", str(file))[0] == 3
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]
    assert (
        "cannot be written" in orderly("parked", "export", group, "--out", "/no/such/folder/f")[2]
    )


def test_keepalive_appends_what_is_old_and_nothing_counts_twice(orderly, group, owner):
    at = owner.end()
    code, _, err = orderly("parked", "keepalive", group)
    assert (code, owner.end()) == (0, at)
    assert "0 messages appended again" in err
    code, _, err = orderly("parked", "keepalive", group, "--older-than", "0")
    assert code == 0
    assert "4 messages appended again" in err
    copies = owner.records(at)
    assert {type(copy) for copy in copies} == {Parked}
    assert sorted(copy.offset for copy in copies) == [0, 1, 2, 3]
    found = listed(orderly, group)[1]["keys"]
    assert [(key["key"], key["messages"], key["attempts"]) for key in found] == [
        (7, 1, 1),
        ("a", 3, 3),
    ]
