"""Parked keys as an onlooker sees them: what counts, what is unknown, what a command waits for."""

import json
import os
import stat
import time
from dataclasses import replace

import pytest

from orderly import Client, ClientConfig
from orderly.errors import ConfigError, OrderlyError, RouteError
from orderly.monitoring.parked import Exported, ParkedMessages
from orderly.protocol.codes import RequestCode, ResponseCode
from orderly.protocol.park_record import Command, ParkDetails, control_message, park_message
from orderly.testing import Fail as Refuse
from orderly.testing import Fault
from tests.support.messages import message
from tests.support.topics import expire

HOURS = 3600


def bodies(parked, key="a"):
    return [found.original.body for found in parked.show(key)]


# --- what counts -------------------------------------------------------------------------------


def test_of_two_copies_one_counts_and_the_order_is_that_of_the_source(parked, owner):
    first = next(iter(parked.show("a")))
    owner.append(park_message(first.original, first.details))
    assert bodies(parked) == [b"one", b"two", b"three"]
    assert parked.list().keys[0].messages == 3


def test_what_is_settled_is_not_parked_any_more(parked, owner):
    owner.table.settled("a", 2, messages=2)
    owner.record()
    assert bodies(parked) == [b"three"]
    (report,) = parked.list().keys
    assert (report.messages, report.recorded, report.first.offset) == (1, 1, 2)


def test_a_key_whose_messages_the_broker_has_deleted_is_shown(orderly_fake, parked, owner):
    expire(orderly_fake, owner.park_queue.topic, 0, before=owner.end())
    (gone,) = parked.list().keys
    assert (gone.key, gone.messages, gone.recorded, gone.gone) == ("a", 0, 3, 3)
    assert (gone.first, gone.last_offset, gone.expires) == (None, None, None)


def test_what_an_heir_parks_again_is_counted_once_and_no_loss(parked, owner):
    """The owner is killed after its record, and before one that says that they are done."""
    owner.low = 0
    owner.park("b", b"four", reason="poison")
    owner.low = 0
    owner.record()
    heir = owner.take()
    assert heir.low == 0, "they come again"
    for found in [*parked.show("a"), *parked.show("b")]:
        at = heir.append(park_message(found.original, found.details))
        heir.table.note(found.key, found.offset, at, found.original.stored_size)
    heir.park("a", b"five", reason="poison")
    heir.record()
    reports = parked.list().keys
    assert [(r.key, r.messages, r.recorded, r.gone) for r in reports] == [
        ("a", 4, 4, 0),
        ("b", 1, 1, 0),
    ]


def test_a_number_on_record_alone_proves_no_loss(parked, owner):
    owner.table.settled("a", 0, messages=-2)  # as older releases counted after a kill
    owner.record()
    (report,) = parked.list().keys
    assert (report.messages, report.recorded, report.gone) == (3, 5, 0)


def test_what_is_damaged_may_be_a_message_that_was_counted(parked, owner):
    owner.table.settled("a", 0, messages=-1)
    owner.record()
    (first, *_) = parked.show("a")
    damaged = park_message(first.original, first.details)
    owner.append(replace(damaged, properties=damaged.properties | {"ORDERLY_PARKED": "{"}))
    owner.end()
    (report,) = parked.list().keys
    assert (report.messages, report.recorded, report.gone) == (3, 4, 1)


def test_a_number_is_another_key_than_its_text(parked, owner):
    owner.park(7, b"seven", reason="poison")
    owner.record()
    assert bodies(parked, 7) == [b"seven"]
    with pytest.raises(ConfigError, match="'7' is not parked"):
        bodies(parked, "7")


def test_what_only_looks_like_a_message_of_the_key_is_passed_over(parked, owner):
    details = ParkDetails(key="b", reason="x", parked_at=time.time(), token=0)
    as_a = park_message(message(9, "b"), details)
    tag = park_message(message(9, "a"), replace(details, key="a")).properties["TAGS"]
    owner.append(replace(as_a, properties=as_a.properties | {"TAGS": tag}))
    elsewhere = replace(message(9, "a"), queue=replace(owner.queue, queue_id=1))
    owner.append(park_message(elsewhere, replace(details, key="a")))
    owner.append(control_message(Command("1", "release", "a", "me", 1)))
    assert bodies(parked) == [b"one", b"two", b"three"]


def test_without_any_record_it_is_as_the_next_owner_will_rebuild_it(parked, new_owner):
    owner = new_owner().take()
    owner.park("a", b"one", reason="poison")
    owner.lose_records()
    assert bodies(parked) == [b"one"]


def test_the_oldest_copy_says_until_when_all_are_kept_and_is_the_one_to_renew(
    orderly_fake, parked, owner
):
    orderly_fake.jump_clock(-40 * HOURS)
    owner.park("b", b"old", reason="poison")
    orderly_fake.jump_clock(40 * HOURS)
    owner.park("b", b"new", reason="poison")
    owner.record()
    first, second = parked.list().keys
    assert first.expires == pytest.approx(time.time() + 72 * HOURS, abs=60)
    assert second.expires == pytest.approx(time.time() + 32 * HOURS, abs=60)
    at, progress = owner.end(), []
    assert parked.keepalive(on_progress=progress.append).appended == 1
    assert progress == [1]
    assert [again.original.body for again in owner.records(at)] == [b"old"]
    assert parked.list().keys[1].expires == pytest.approx(time.time() + 72 * HOURS, abs=60)
    assert bodies(parked, "b") == [b"old", b"new"]
    assert parked.keepalive().appended == 0


def test_an_export_is_whole_or_not_there(parked, owner, new_owner, tmp_path):
    file = tmp_path / "parked.jsonl"
    assert parked.export(file) == Exported(messages=3, gone=0)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line["key"], line["offset"]) for line in lines] == [("a", 0), ("a", 1), ("a", 2)]
    before = file.read_bytes()
    other = new_owner("payments").take()
    other.damage()
    with pytest.raises(OrderlyError, match="damaged"):
        parked.export(file)
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_an_export_tells_what_the_broker_has_deleted(orderly_fake, parked, owner, tmp_path):
    expire(orderly_fake, owner.park_queue.topic, 0, before=owner.end() - 1)
    assert parked.export(tmp_path / "parked.jsonl") == Exported(messages=1, gone=2)


def test_an_export_follows_no_link_and_replaces_no_device(parked, owner, tmp_path):
    file, link = tmp_path / "mine", tmp_path / "link"
    file.write_text("mine")
    link.symlink_to(file)
    parked.export(link)
    assert not link.is_symlink()
    assert stat.S_IMODE(link.stat().st_mode) == 0o600
    assert len(link.read_text().splitlines()) == 3
    assert file.read_text() == "mine"
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(OSError, match="not a regular file"):
        parked.export(fifo)
    assert fifo.is_fifo()


def test_a_key_that_is_released_while_others_are_renewed_is_left_alone(parked, owner):
    owner.park("b", b"four", reason="poison")
    owner.record()

    def release_b(_):
        if owner.table.parked("b"):
            owner.table.release("b")
            owner.record()

    assert parked.keepalive(older_than=0, on_progress=release_b).appended == 3


# --- what is not known -------------------------------------------------------------------------


def test_what_could_not_be_read_is_unknown_and_the_rest_is_shown(parked, owner, new_owner):
    other = new_owner("payments").take()
    other.damage()
    listing = parked.list()
    assert [report.key for report in listing.keys] == ["a"]
    ((queue, error),) = listing.unknown
    assert queue == other.queue
    assert "damaged" in str(error)
    assert bodies(parked) == [b"one", b"two", b"three"]
    with pytest.raises(OrderlyError, match="is not known"):
        bodies(parked, "b")
    with pytest.raises(OrderlyError, match="damaged"):
        parked.keys()


def test_a_broker_that_does_not_answer_is_unknown_and_asked_once(orderly_fake, owner, new_owner):
    new_owner("payments")
    config = ClientConfig(namesrv=orderly_fake.namesrv, request_timeout=2.0)
    with Client(config) as client:
        orderly_fake.pause_broker()
        listing = ParkedMessages(client, "shipping").list()
        orderly_fake.resume_broker()
    assert (listing.keys, listing.read) == ((), ())
    assert [queue.topic for queue, _ in listing.unknown] == ["orders", "payments"]
    assert listing.unknown[0][1] is listing.unknown[1][1]


def test_a_broker_that_is_not_listed_any_more_is_not_nothing(orderly_fake, parked, owner):
    orderly_fake.kill_broker()
    with pytest.raises(RouteError, match="lists no park topic of group shipping"):
        parked.list()


def test_how_long_the_broker_keeps_messages_may_be_unknown(orderly_fake, parked, owner):
    refused = Refuse(ResponseCode.NO_PERMISSION)
    orderly_fake.script(Fault(RequestCode.GET_BROKER_CONFIG, refused, times=None))
    assert parked.list().keys[0].expires is None
    renewal = parked.keepalive()
    assert (renewal.appended, len(renewal.unknown)) == (0, 1)
    assert parked.keepalive(older_than=0).appended == 3


def test_a_key_of_several_topics_must_be_told_apart(client, parked, owner, new_owner):
    other = new_owner("payments").take()
    other.park("a", b"paid", reason="poison")
    other.record()
    with pytest.raises(ConfigError, match="several topics: orders, payments"):
        parked.drop("a")
    assert bodies(ParkedMessages(client, "shipping", "payments")) == [b"paid"]
    assert parked.keys() == (("orders", "a"), ("payments", "a"))
