"""What stands with every result: the pinned offsets, the options, who made it."""

from orderly.model import MessageQueue
from orderly.monitoring.backlog.states import Verdict
from orderly.spark.jobs.origin import origin
from orderly.spark.offsets import QueueRange, from_object


def test_the_pinned_offsets_can_be_given_to_the_source_again():
    ranges = [QueueRange(MessageQueue("t", b, q), q, q + 7) for b in ("a", "b") for q in (0, 1)]
    made = origin("audit", ranges, {"tags": "A"})
    document = made.document(Verdict.WARNING, {"inversions": 2})
    assert document["schema"] == "orderly.spark.audit/v1"
    starts, ends = (document["read"][name] for name in ("startingOffsets", "endingOffsets"))
    assert from_object(starts, "") == {it.queue: it.start for it in ranges}
    assert from_object(ends, "") == {it.queue: it.end for it in ranges}
    assert (document["verdict"], document["options"]) == ("WARNING", {"tags": "A"})
    assert document["figures"] == {"inversions": 2}
    assert made.messages == 28


def test_the_versions_are_those_that_run():
    versions = origin("audit").versions
    assert set(versions) == {"orderly", "pyspark", "pyarrow", "python"}
    assert versions["python"].startswith("3.")
