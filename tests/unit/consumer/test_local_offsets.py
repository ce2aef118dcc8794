"""The offset file of a broadcasting consumer: whole or refused, never guessed."""

import json
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from orderly.consumer import local_offsets as offsets_module
from orderly.consumer.local_offsets import LocalOffsets
from orderly.errors import ConfigError, LifecycleError, OffsetFileError
from orderly.model import MessageQueue
from orderly.ordering.broker_calls import HasOffsets

QUEUES = [MessageQueue("orders", "broker-a", n) for n in range(4)]
Q = QUEUES[0]


@pytest.fixture
def make(tmp_path):
    """Open the offsets of a member; closed after the test."""
    opened = []

    def make(group="g", instance="i", folder=tmp_path):
        offsets = LocalOffsets(folder, group, instance)
        opened.append(offsets)
        offsets.open()
        return offsets

    yield make
    for offsets in opened:
        offsets.close()


@pytest.fixture
def stored(make):
    """The closed file of a member that saved twice: 7, then 9; its backup has 7."""
    offsets = make()
    offsets.put(Q, 7)
    offsets.put(Q, 9)
    offsets.close()
    return offsets.path


def backup(path):
    return path.with_name(path.name + ".bak")


# --- storing --------------------------------------------------------------------------------------


def test_a_new_member_has_no_offsets(make):
    assert make().get(Q) is None


def test_what_was_put_is_there_after_a_restart(make):
    offsets = make()
    offsets.put(Q, 5)
    offsets.put_all({QUEUES[1]: 6, QUEUES[2]: 0})
    assert offsets.get(Q) == 5
    offsets.close()
    again = make()
    assert [again.get(queue) for queue in QUEUES] == [5, 6, 0, None]


def test_it_is_on_the_disk_before_put_returns(make, monkeypatch):
    offsets, synced = make(), []
    real = os.fsync

    def fsync(descriptor):
        real(descriptor)
        synced.append(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, "fsync", fsync)
    offsets.put(Q, 5)
    assert synced == [offsets.path.stat().st_ino, offsets.path.parent.stat().st_ino]
    assert json.loads(offsets.path.read_bytes())["offsets"][0]["offset"] == 5


def test_many_offsets_are_one_write(make, monkeypatch):
    offsets, writes = make(), []
    monkeypatch.setattr(offsets_module, "sync_folder", writes.append)
    offsets.put_all(dict.fromkeys(QUEUES, 3))
    assert len(writes) == 1


def test_threads_lose_nothing_of_each_other(make):
    offsets = make()
    with ThreadPoolExecutor(8) as pool:
        queues = [MessageQueue("t", "b", n) for n in range(40)]
        list(pool.map(lambda queue: offsets.put(queue, queue.queue_id), queues))
    offsets.close()
    again = make()
    assert [again.get(queue) for queue in queues] == list(range(40))


def test_a_failed_write_keeps_what_was_stored(make, monkeypatch):
    offsets = make()
    offsets.put(Q, 5)

    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OffsetFileError, match=r"written: .*No space left.*offsets_folder"):
            offsets.put(Q, 6)
    assert offsets.get(Q) == 5
    offsets.close()
    assert make().get(Q) == 5


@pytest.mark.parametrize("bad", [-1, True, 1.5, "7", None])
def test_what_would_be_refused_on_reading_is_refused_on_writing(make, bad):
    offsets = make()
    with pytest.raises(ConfigError, match="must be an int from 0"):
        offsets.put_all({QUEUES[1]: 3, Q: bad})
    assert offsets.get(QUEUES[1]) is None


def test_the_file_says_whose_it_is_and_when_it_was_written(stored):
    document = json.loads(stored.read_bytes())
    assert document["version"] == 1
    assert (document["group"], document["instance"]) == ("g", "i")
    assert datetime.fromisoformat(document["written"]).tzinfo is not None
    assert document["offsets"] == [
        {"topic": "orders", "broker": "broker-a", "queue_id": 0, "offset": 9}
    ]


# --- whose file -----------------------------------------------------------------------------------


def test_groups_and_instances_do_not_mix(make):
    names = [
        ("NS%g", "i"),
        ("NS|g", "i"),
        ("NS%25g", "i"),
        ("NS%g", "i.2"),
        ("a", "b"),
        ("ab", "."),
    ]
    members = [make(*name) for name in names]
    for number, member in enumerate(members):
        member.put(Q, number)
    assert [member.get(Q) for member in members] == list(range(len(names)))
    assert len({member.path for member in members}) == len(names)


def test_the_folder_is_made_for_its_owner_only_and_home_is_understood(make, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    offsets = make(folder=Path("~/deep/offsets"))
    assert offsets.path.parent == tmp_path / "deep" / "offsets"
    assert offsets.path.parent.stat().st_mode & 0o777 == 0o700


def test_a_second_consumer_is_refused_until_the_first_closes(make):
    first = make()
    with pytest.raises(ConfigError, match=r"g@i\.json.*an instance of its own"):
        make()
    first.close()
    make()


def test_a_copy_of_another_members_file_is_refused(make, stored):
    stored.rename(stored.with_name("g@j.json"))
    with pytest.raises(OffsetFileError, match="belongs to"):
        make(instance="j")


def test_a_link_beside_the_file_does_not_choose_where_offsets_are_written(make, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    offsets = make()
    (tmp_path / f"{offsets.path.name}.new").symlink_to(victim)
    offsets.put(Q, 5)
    assert (offsets.get(Q), victim.read_text()) == (5, "precious")
    assert not offsets.path.is_symlink()
    assert stat.S_IMODE(offsets.path.stat().st_mode) == 0o600


def test_a_folder_that_cannot_be_made_is_an_error_of_ours(make, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OffsetFileError, match=r"check the folder's permissions"):
        make(folder=tmp_path / "file" / "offsets")


def test_calls_must_fit_its_state(make):
    offsets = make()
    with pytest.raises(LifecycleError, match="open already"):
        offsets.open()
    offsets.close()
    offsets.close()
    with pytest.raises(LifecycleError, match="not open"):
        offsets.put(Q, 1)


# --- damage ---------------------------------------------------------------------------------------

ROW = {"topic": "t", "broker": "b", "queue_id": 0, "offset": 1}
HEAD = {"version": 1, "group": "g", "instance": "i"}
DAMAGED = {
    "empty": b"",
    "cut": b'{"version": 1, "group"',
    "no object": b"[]",
    "no text": b"\xff\xfe\x00",
    "deep": b"[" * 100_000,
    "no version": b"{}",
    "no rows": json.dumps(HEAD).encode(),
    "rows": json.dumps({**HEAD, "offsets": {}}).encode(),
    "negative": json.dumps({**HEAD, "offsets": [{**ROW, "offset": -1}]}).encode(),
    "fraction": json.dumps({**HEAD, "offsets": [{**ROW, "offset": 1.0}]}).encode(),
    "text": json.dumps({**HEAD, "offsets": [{**ROW, "offset": "1"}]}).encode(),
    "truth": json.dumps({**HEAD, "offsets": [{**ROW, "offset": True}]}).encode(),
    "queue": json.dumps({**HEAD, "offsets": [{**ROW, "queue_id": -1}]}).encode(),
    "missing": json.dumps({**HEAD, "offsets": [{"topic": "t"}]}).encode(),
    "twice": json.dumps({**HEAD, "offsets": [ROW, ROW]}).encode(),
}
damaged = pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)


@damaged
def test_a_damaged_file_gives_way_to_its_backup_aloud_and_is_kept(make, stored, data):
    stored.write_bytes(data)
    with capture_logs() as events:
        offsets = make()
    assert offsets.get(Q) == 7
    (event,) = [e for e in events if e["log_level"] == "warning"]
    assert Path(event["kept_as"]).read_bytes() == data
    assert event["file"] == str(stored)
    offsets.put(Q, 8)
    offsets.close()
    assert make().get(Q) == 8


@damaged
def test_without_a_whole_copy_it_is_an_error_every_time_and_nothing_is_moved(make, stored, data):
    stored.write_bytes(data)
    backup(stored).write_bytes(b"{")
    for _ in range(2):
        with pytest.raises(OffsetFileError, match=r"damaged .* restore .* or remove it"):
            make()
    assert stored.read_bytes() == data
    backup(stored).unlink()
    with pytest.raises(OffsetFileError, match="damaged"):
        make()
    assert stored.read_bytes() == data


def test_a_newer_version_is_refused_and_its_file_left_alone(make, stored):
    newer = json.dumps({**HEAD, "version": 2, "offsets": []}).encode()
    stored.write_bytes(newer)
    with pytest.raises(OffsetFileError, match="version 2"):
        make()
    assert stored.read_bytes() == newer


def test_an_unreadable_file_is_an_error_not_a_new_start(make, stored):
    stored.unlink()
    stored.mkdir()
    with pytest.raises(OffsetFileError, match=r"cannot be read"):
        make()


@pytest.mark.parametrize("step", range(4))
def test_a_crash_at_any_step_of_a_write_leaves_an_offset_that_was_put(
    make, stored, monkeypatch, step
):
    """The steps: before anything, before and after each rename."""
    steps, real = iter(range(10)), Path.replace

    class Crash(BaseException):
        pass

    def crash_at(*_):
        if next(steps) == step:
            raise Crash

    def replace(self, target):
        crash_at()
        return real(self, target)

    offsets = make()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", replace)
        patch.setattr(offsets_module, "sync_folder", crash_at)
        if step < 3:
            with pytest.raises(Crash):
                offsets.put(Q, 10)
        else:
            offsets.put(Q, 10)
    offsets.close()
    assert make().get(Q) == {0: 9, 1: 9, 2: 10, 3: 10}[step]


queues = st.builds(MessageQueue, st.text(), st.text(), st.integers(0, 2**31 - 1))


@given(st.dictionaries(queues, st.integers(0, 2**63 - 1)))
def test_whatever_is_written_is_read(offsets):
    owner = {"group": "g", "instance": "i"}
    data = offsets_module._encode(owner, offsets, datetime.fromisoformat("2026-01-02T03:04:05Z"))
    assert offsets_module._decode(owner, data, Path("f")) == offsets


def test_a_reader_never_waits_for_the_disk(make, monkeypatch):
    offsets = make()
    offsets.put(Q, 5)
    writing, go_on = threading.Event(), threading.Event()

    def slow(_):
        writing.set()
        assert go_on.wait(60)

    monkeypatch.setattr(offsets_module, "sync_folder", slow)
    writer = threading.Thread(target=offsets.put, args=(Q, 6))
    writer.start()
    assert writing.wait(30)
    assert offsets.get(Q) == 5
    go_on.set()
    writer.join()
    assert offsets.get(Q) == 6


def test_whether_a_member_has_begun_in_a_topic_its_file_says(make):
    """Nobody is asked: all is answered without brokers."""
    offsets = make()
    perform = offsets_module.broadcasting_performer("g", offsets, None)
    others = tuple(MessageQueue("invoices", q.broker_name, q.queue_id) for q in QUEUES)
    assert not perform(HasOffsets(tuple(QUEUES)))
    offsets.put(QUEUES[2], 0)
    assert perform(HasOffsets(tuple(QUEUES)))
    assert not perform(HasOffsets(others))
