"""A run that is on its way into the archive arrives there as a whole, or is not called finished."""

from unittest.mock import MagicMock

import pytest

from orderly.errors import OrderlyError
from orderly.model import MessageQueue
from orderly.spark.jobs.archive.book import Book, Identity
from orderly.spark.jobs.archive.ledger import Run, Stretch
from orderly.spark.jobs.files import LocalFiles
from orderly.spark.offsets.ranges import QueueRange

FILES = tuple(f"dt=2026-11-20/broker=b/queue_id=0/run-000001-{part}.parquet" for part in "ab")
RUN = Run(1, 0.0, (Stretch(QueueRange(MessageQueue("t", "b", 0), 0, 2), 0, 2),), {}, FILES)


class Died(BaseException):
    """The process ends here."""


@pytest.fixture
def book(tmp_path):
    """An archive whose first run is written, and not yet finished."""
    book = Book(None, LocalFiles(str(tmp_path)))
    book.claim(Identity("t"))
    for name in "ab":
        book.files.write(
            f"{book.staging(1)}/dt=2026-11-20/broker=b/queue_id=0/{name}.parquet", name
        )
    assert book.written(1) == FILES
    return book


def messages(book):
    return book.files.tree("messages")


def test_an_archive_has_begun_with_its_first_run_and_not_with_the_claim(book, monkeypatch):
    """A first call that failed leaves archive.json; the next must still begin where it is told."""
    assert not book.has_begun()
    book.files.write("runs/.000001.ready.json.part", "")
    assert not book.has_begun()
    with monkeypatch.context() as patched:
        patched.setattr(Book, "_move", died)
        with pytest.raises(Died):
            book.finish(RUN)
    assert book.runs() == []
    assert book.has_begun(), "the next call completes it, and goes on behind it"
    book.settle()
    assert book.has_begun()
    assert book.runs() == [RUN]


def died(*_):
    raise Died


def test_a_move_that_left_its_source_behind_is_no_obstacle(book, monkeypatch):
    """Object storage moves by a copy and a removal; a crash may come between them."""

    def copied(files, name, to):
        files.write(to, files.read(name))
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(LocalFiles, "move", copied)
        with pytest.raises(Died):
            book.finish(RUN)
    book.settle()
    assert messages(book) == [f"messages/{name}" for name in FILES]
    assert book.runs() == [RUN]
    assert not book.files.exists("_staging")


def test_a_run_whose_files_are_gone_is_not_called_finished(book):
    book.files.remove(f"{book.staging(1)}/dt=2026-11-20/broker=b/queue_id=0/b.parquet")
    with pytest.raises(OrderlyError, match="is gone"):
        book.finish(RUN)
    assert book.runs() == []


def test_a_delta_run_is_read_by_its_columns_and_not_by_what_folders_look_like(book):
    """A broker may be called 007, which Spark takes for a number."""
    spark = MagicMock()
    book.files.write("archive.json", book.files.read("archive.json").replace("parquet", "delta"))
    Book(spark, book.files).finish(RUN)
    (schema,) = spark.read.schema.call_args.args
    assert "`broker` string" in schema
    assert "`properties` map<string,string>" in schema
