from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orderly.errors import ConfigError
from orderly.monitoring.recording import recorder as module
from orderly.monitoring.recording.reading import find_history
from orderly.monitoring.recording.recorder import Recorder
from tests.support.snapshots import row, snapshot

DAY = 86_400.0
START = datetime(2026, 11, 21, 10, tzinfo=UTC).timestamp()


def looks(at, queues=2):
    return snapshot(*(row(queue_id=queue) for queue in range(queues)), at=at)


def recorded(directory, **bounds):
    """All rows of a history, by time and queue: read as the job reads them."""
    found = find_history(directory, **bounds)
    rows = [*found.growing.to_pylist(), *_rows(found.files)]
    return sorted((each["at"].timestamp(), each["queue_id"]) for each in rows)


def _rows(files):
    return [each for file in files for each in pq.read_table(file, partitioning=None).to_pylist()]


def visible(directory):
    """What Spark and pandas see."""
    return [path for path in directory.rglob("*.parquet") if not path.name.startswith("_")]


def test_each_snapshot_is_on_disk_at_once(tmp_path):
    with Recorder(tmp_path, interval=15) as recorder:
        for number in range(3):
            recorder.take(looks(START + 15 * number))
            times = [START + 15 * n for n in range(number + 1)]
            assert recorded(tmp_path) == [(at, queue) for at in times for queue in (0, 1)]


def test_others_see_finished_files_alone(tmp_path):
    with Recorder(tmp_path, interval=15) as recorder:
        recorder.take(looks(START))
        assert visible(tmp_path) == []
    [file] = visible(tmp_path)
    assert file.parent.name == "dt=2026-11-21"
    assert len(recorded(tmp_path)) == 2


def test_a_file_ends_after_an_hour_and_with_its_day(tmp_path):
    with Recorder(tmp_path, interval=600) as recorder:
        for number in range(18 * 6):  # from 10:00 to 04:00
            recorder.take(looks(START + 600 * number))
    files = sorted(path.relative_to(tmp_path).as_posix() for path in visible(tmp_path))
    assert len(files) == 18
    assert sum(name.startswith("dt=2026-11-22/") for name in files) == 4
    assert len(recorded(tmp_path)) == 18 * 6 * 2


def test_a_file_ends_before_it_has_too_many_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_ROWS", 10)
    with Recorder(tmp_path, interval=15) as recorder:
        for number in range(4):
            recorder.take(looks(START + number, queues=4))
    assert sorted(pq.read_metadata(file).num_rows for file in visible(tmp_path)) == [8, 8]


def test_what_a_dead_recorder_left_is_kept_and_its_half_file_is_not(tmp_path):
    dead = Recorder(tmp_path, interval=15)
    dead.take(looks(START))
    dead._lock.close()  # as the system does when a process ends
    [growing] = tmp_path.rglob("_growing-*")
    (growing.parent / f"_part-{growing.name}").write_bytes(b"PAR1 half")
    with Recorder(tmp_path, interval=15) as recorder:
        recorder.take(looks(START + 15))
        assert recorded(tmp_path) == [(START + 15 * n, queue) for n in (0, 1) for queue in (0, 1)]
    assert not list(tmp_path.rglob("_part-*"))


def test_a_crash_while_writing_loses_that_snapshot_alone(tmp_path, monkeypatch):
    recorder = Recorder(tmp_path, interval=15)
    recorder.take(looks(START))

    def die(table, file, **options):
        file.write(b"PAR1 half of it")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module.pq, "write_table", die)
        with pytest.raises(KeyboardInterrupt):
            recorder.take(looks(START + 15))
    recorder._lock.close()
    assert recorded(tmp_path) == [(START, 0), (START, 1)]
    Recorder(tmp_path, interval=15).close()
    assert recorded(tmp_path) == [(START, 0), (START, 1)]


def test_two_recorders_do_not_write_into_one_directory(tmp_path):
    with Recorder(tmp_path, interval=15), pytest.raises(ConfigError, match="another process"):
        Recorder(tmp_path, interval=15)
    Recorder(tmp_path, interval=15).close()


def test_a_directory_that_cannot_be_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot record"):
        Recorder(tmp_path / "file" / "history", interval=15)


def test_old_days_are_removed_and_only_our_files(tmp_path):
    with Recorder(tmp_path, interval=15, keep=2 * DAY) as recorder:
        for day in range(5):
            recorder.take(looks(START + DAY * day))
        mine = tmp_path / "dt=2026-11-21" / "notes.txt"
        assert not mine.parent.exists()
        kept = tmp_path / "dt=2026-11-23" / "notes.txt"
        kept.write_text("mine")
        recorder.take(looks(START + DAY * 5))
        recorder.take(looks(START + DAY * 6))
    assert kept.read_text() == "mine"
    assert {path.parent.name for path in visible(tmp_path)} == {
        "dt=2026-11-25", "dt=2026-11-26", "dt=2026-11-27",
    }  # fmt: skip


def test_a_snapshot_that_could_not_be_written_is_written_with_the_next(tmp_path, caplog):
    with Recorder(tmp_path, interval=15) as recorder:
        blocker = tmp_path / "dt=2026-11-21"
        blocker.write_text("in the way")
        for number in range(3):
            recorder.take(looks(START + 15 * number))
        blocker.unlink()
        recorder.take(looks(START + 45))
        assert len(recorded(tmp_path)) == 8
    assert sum("recording.failed" in record.getMessage() for record in caplog.records) == 1


def test_when_nothing_can_be_written_for_long_the_oldest_give_way(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_ROWS", 6)
    with Recorder(tmp_path, interval=15) as recorder:
        blocker = tmp_path / "dt=2026-11-21"
        blocker.write_text("in the way")
        for number in range(10):
            recorder.take(looks(START + number))
        blocker.unlink()
    times = [at for at, queue in recorded(tmp_path) if queue == 0]
    assert times == [START + 7, START + 8, START + 9]


def test_days_asked_for_are_found(tmp_path):
    with Recorder(tmp_path, interval=15) as recorder:
        for day in range(4):
            recorder.take(looks(START + DAY * day, queues=1))
    since, until = START + DAY, START + 2 * DAY
    found = [at for at, _ in recorded(tmp_path, since=since, until=until)]
    assert found == [since, until]


def test_a_directory_without_a_history_says_how_to_make_one(tmp_path):
    with pytest.raises(ConfigError, match="orderly backlog record"):
        find_history(tmp_path)


def test_other_parquet_is_no_history(tmp_path):
    folder = tmp_path / "dt=2026-11-21"
    folder.mkdir()
    pq.write_table(pa.table({"at": [1]}), folder / "snapshots-x.parquet")
    with pytest.raises(ConfigError, match="is no history of backlogs"):
        find_history(tmp_path)
    (folder / "snapshots-x.parquet").write_text("no Parquet")
    with pytest.raises(ConfigError, match="cannot be read as Parquet"):
        find_history(tmp_path)
