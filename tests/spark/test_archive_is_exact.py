"""Promise: an archive holds each message once, whatever broke off a run; what is gone is told."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from orderly.client import Client
from orderly.model import Message
from orderly.monitoring.backlog.states import Verdict
from orderly.producer import OrderlyProducer
from orderly.spark.jobs.archive.book import Book
from orderly.spark.jobs.archive.reading import read
from orderly.spark.jobs.archive.run import ArchiveSettings, run
from orderly.spark.jobs.archive.verify import gaps, verify
from orderly.spark.jobs.files import LocalFiles
from tests.support.waiting import eventually

QUEUES = 4


class Died(BaseException):
    """The process ends here."""


def send(namesrv, topic, count, first=0):
    with OrderlyProducer(namesrv=namesrv) as producer:
        messages = [
            Message(
                topic, b"%d" % n, f"key-{n % 7}", "even" if n % 2 == 0 else "odd", (), {"n": f"{n}"}
            )
            for n in range(first, first + count)
        ]
        futures = [producer.submit(message) for message in messages]
        return [future.result() for future in futures]


def stored(namesrv, topic, count):
    """Wait until so many messages can be read."""
    with Client(namesrv=namesrv) as client:

        def total():
            return sum(it.max_offset for it in client.admin.topic_stats(topic).values()) == count

        eventually(total)


@pytest.fixture
def archived(orderly_namesrv, orderly_topic, tmp_path, spark):
    """A topic with 200 messages, and settings for its archive."""
    topic = orderly_topic(queues=QUEUES)
    send(orderly_namesrv, topic, 200)
    stored(orderly_namesrv, topic, 200)
    return ArchiveSettings({"namesrv": orderly_namesrv, "topic": topic}, str(tmp_path / "archive"))


def bodies(spark, settings):
    rows = read(spark, settings.directory).select("body").collect()
    return Counter(int(row.body) for row in rows)


def test_runs_lie_end_to_end_and_a_crash_at_any_point_neither_loses_nor_doubles(
    archived, spark, orderly_namesrv, monkeypatch
):
    topic = archived.source["topic"]
    first = run(spark, replace(archived, step=120))
    assert (first.verdict, first.rows, len(first.added)) == (Verdict.OK, 200, 2)
    assert bodies(spark, archived) == Counter(range(200))
    assert run(spark, archived).added == ()

    sent = 200
    for place, point in enumerate(("finish", "_move", "_after_move"), 3):
        send(orderly_namesrv, topic, 20, sent)
        sent += 20
        stored(orderly_namesrv, topic, sent)
        with monkeypatch.context() as patched:
            break_at(patched, point)
            with pytest.raises(Died):
                run(spark, archived)
        assert bodies(spark, archived) == Counter(range(sent - 20)), point
        again = run(spark, archived)
        assert bodies(spark, archived) == Counter(range(sent)), point
        assert [it.number for it in again.runs] == list(range(1, place + 1))

    directory = Path(archived.directory)
    assert not (directory / "_staging").exists()
    plain = spark.read.parquet(str(directory / "messages"))
    assert plain.count() == sent, "what others read in the folder is the same"
    check_columns(spark, archived, topic)
    check_verified(spark, archived, sent)


def break_at(patched, point):
    if point == "finish":  # written, and not yet said to be whole
        patched.setattr(Book, "finish", died)
    elif point == "_move":  # one file is at its place, the others are not
        move, moves = LocalFiles.move, []

        def once(files, name, to):
            moves.append(name)
            if len(moves) == 2:
                raise Died
            move(files, name, to)

        patched.setattr(LocalFiles, "move", once)
    else:  # all moved, the page not yet written
        write = LocalFiles.write

        def unless_page(files, name, text):
            if name.startswith("runs/") and not name.endswith(".ready.json"):
                raise Died
            write(files, name, text)

        patched.setattr(LocalFiles, "write", unless_page)


def died(*_):
    raise Died


def check_columns(spark, settings, topic):
    row = read(spark, settings.directory).where("body = CAST('5' AS BINARY)").first()
    assert (row.topic, row.sharding_key, row.tag, row.properties["n"]) == (
        topic,
        "key-5",
        "odd",
        "5",
    )
    assert str(row.dt) == row.store_ts.date().isoformat()


def check_verified(spark, settings, sent):
    runs = Book(spark, LocalFiles(settings.directory)).runs()
    counted = verify(spark, settings.directory, runs)
    assert len(counted) == QUEUES
    assert sum(it.rows for it in counted) == sum(it.covered.messages for it in counted) == sent
    assert all(it.is_sound and it.absent == 0 for it in counted)
    assert gaps(spark, settings.directory, runs, tags="*") == []
