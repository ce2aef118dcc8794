"""The book of an archive: pages survive writing, runs lie end to end, damage is seen."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import OrderlyError, ProtocolError
from orderly.model import MessageQueue
from orderly.spark.jobs.archive.ledger import (
    Run,
    Stretch,
    check_chain,
    covered,
    from_text,
    reached,
    to_text,
)
from orderly.spark.offsets.ranges import QueueRange

ONE, TWO = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)


def stretch(queue, start, end, lost=0, rows=None):
    return Stretch(
        QueueRange(queue, start, end), lost, end - start - lost if rows is None else rows, 1.5, 2.5
    )


def run(number, *stretches):
    return Run(number, 1000.25, stretches, {"2026-11-21": 3}, ("dt=2026-11-21/a.parquet",))


@given(
    start=st.integers(0, 1 << 60),
    count=st.integers(0, 1 << 40),
    lost=st.integers(0, 10),
    moment=st.none() | st.floats(0, 4e9),
)
def test_a_page_reads_as_it_was_written(start, count, lost, moment):
    part = Stretch(QueueRange(ONE, start, start + count + lost), lost, count, moment, moment)
    page = Run(7, 12.5, (part,), {"2026-11-21": count}, ("a", "ü"))
    assert from_text(to_text(page)) == page


def test_another_schema_or_a_torn_page_is_refused():
    page = json.loads(to_text(run(1, stretch(ONE, 0, 5))))
    for text in (json.dumps(page | {"schema": "other/v1"}), to_text(run(1))[:-20], "{}", ""):
        with pytest.raises(ProtocolError):
            from_text(text)


def test_where_the_next_run_goes_on():
    runs = [run(1, stretch(ONE, 5, 9), stretch(TWO, 0, 4)), run(2, stretch(ONE, 9, 12))]
    check_chain(runs)
    assert reached(runs) == {ONE: 12, TWO: 4}
    assert covered(runs) == (QueueRange(ONE, 5, 12), QueueRange(TWO, 0, 4))


def test_a_missing_page_and_an_overlap_are_seen():
    with pytest.raises(OrderlyError, match="run 1 of the archive is missing"):
        check_chain([run(2, stretch(ONE, 0, 5))])
    for start in (4, 6):
        with pytest.raises(OrderlyError, match="ended at 5"):
            check_chain([run(1, stretch(ONE, 0, 5)), run(2, stretch(ONE, start, 9))])


def test_what_gave_no_row_is_neither_lost_nor_there():
    assert stretch(ONE, 0, 10, lost=3, rows=5).absent == 2
    assert run(1, stretch(ONE, 0, 10, lost=3, rows=5), stretch(TWO, 0, 4, lost=1)).lost == 4
