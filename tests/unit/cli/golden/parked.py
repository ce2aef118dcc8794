"""`orderly parked`: what is shown, what is refused, what is asked of whom, and the exit codes."""

from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from unittest import mock

from orderly.cli import parked as command
from orderly.errors import ConnectionLost, RequestTimeout
from orderly.model import MessageQueue
from orderly.monitoring import parked as module
from orderly.monitoring.park_command_sender import Outcome
from orderly.monitoring.parked import Added, Exported, KeyReport, Listing, Renewal
from orderly.protocol.park_record import ParkDetails, Parked
from tests.support.messages import message
from tests.support.snapshots import AT
from tests.unit.cli.golden.transcript import Table, client_is

QUEUE = MessageQueue("orders", "broker-a", 3)
FOURTH = replace(QUEUE, queue_id=4)
DETAILS = ParkDetails(key="k", reason="\x1b[2Jwhy", attempts=2, parked_at=9.0, token=1)
FIRST = Parked(replace(message(5), queue=QUEUE, body=b"\x1b]0;x\x07hello"), DETAILS, 7, 9.0, 100)
REPORT = KeyReport(QUEUE, "k\x1b[31m", 2, 200, 2, 0, FIRST, 6, 72.0)
DONE = Outcome(QUEUE, "k", 2)
GONE = ConnectionLost("broker-a is gone")
SILENT = ((FOURTH, GONE),)


def failed(*, key="k", queue=QUEUE, messages=2, **details):
    """What is told of a key; `details` are those of the failure."""
    first = replace(FIRST, details=replace(DETAILS, **details))
    return replace(REPORT, key=key, queue=queue, messages=messages, first=first)


SEVERAL = (
    REPORT,
    failed(fingerprint="ValueError at a.py:3"),
    failed(fingerprint="f", first_error="ValueError: no"),
    replace(REPORT, key=1234567, recorded=5, gone=3),
)
ALIKE = (
    failed(key="a", fingerprint="a.Bad[4]: no (a:f)", messages=3, parked_at=7.0),
    failed(key="b", fingerprint="a.Bad[4]: no (a:f)"),
    failed(key="c", fingerprint="a.Bad: other", queue=FOURTH),
    failed(key="d", messages=1),
)
THREE = (failed(key="k"), failed(key=7), failed(key="l", queue=FOURTH, parked_at=8.0))
JANE = {"reason": "of jane", "first_error": "no jane", "last_error": "no jane", "fingerprint": "f"}


@contextmanager
def world(keys=(REPORT,), unknown=(), exported=None, released=DONE, added=(DONE,)):
    """A group with these parked keys; tells what was asked for, and how long it was waited."""
    asked = []

    def ask(verb, topic):
        def asking(key, *, on_sent, patience, dry_run=False, on_progress=None):
            dry = "a dry run of " if dry_run else ""
            asked.append(f"{dry}{verb} {key!r} of {topic or 'any topic'} within {patience} s")
            on_sent(f"{verb} is sent")
            if verb == "add":
                return Added(added, (QUEUE,), unknown)
            outcome = released.get(key, DONE) if isinstance(released, dict) else released
            if isinstance(outcome, Exception):
                raise outcome
            return (outcome,)

        return asking

    def export(_path):
        if isinstance(exported, Exception):
            raise exported
        return Exported(9, 4)

    def keepalive(seconds, _progress):
        asked.append(f"keepalive of what is {seconds} s old")
        return Renewal(2, unknown)

    def of(_client, _group, topic):
        return SimpleNamespace(
            list=lambda key=None: Listing(
                tuple(each for each in keys if key in (None, each.key)),
                (QUEUE,) if keys else (),
                unknown,
            ),
            show=lambda _key: iter([each.first for each in keys]),
            export=export,
            release_each=partial(each, released, asked),
            release=ask("release", topic),
            try_=ask("try", topic),
            drop=ask("drop", topic),
            add=ask("add", topic),
            keepalive=keepalive,
        )

    with (
        client_is(None),
        mock.patch.object(module, "ParkedMessages", of),
        mock.patch.object(command, "time", SimpleNamespace(time=lambda: AT)),
    ):
        yield asked


def each(released, asked, wanted, *, dry_run, patience):
    """What becomes of several keys."""
    for queue, key in wanted:
        verb = "try" if dry_run else "release"
        asked.append(f"{verb} {key!r} of {queue} within {patience} s")
        end = released.get(key, DONE) if isinstance(released, dict) else released
        yield queue, key, end if isinstance(end, Exception) else replace(end, queue=queue, key=key)


def tried(*outcomes, reason=None):
    return {"released": replace(DONE, outcomes=tuple(enumerate(outcomes, 5)), reason=reason)}


TABLE = Table(__file__, world, {
    "several": {"keys": SEVERAL},
    "some failed alike": {"keys": ALIKE, "unknown": SILENT},
    "of Jane": {"keys": (failed(key="jane", **JANE), failed(key=7, **JANE))},
    "no answer": {"exported": RequestTimeout("broker-a did not answer")},
    "no folder": {"exported": FileNotFoundError(2, "No such folder", "/x/.f.tmp")},
    "nothing read": {"keys": (), "unknown": SILENT},
    "one was not read": {"unknown": SILENT},
    "it fails again": {"released": replace(DONE, failed_at=6, reason="again")},
    "refused": {"released": replace(DONE, reason="\x1b[2Jno dry runs here")},
    "both are cured": tried("ok", "ok"),
    "two are not cured": tried("ok", "f1", "f1"),
    "not all were tried": tried("ok", reason="only the first 1 of 2 were tried"),
    "the broker is gone": {"released": GONE},
    "nothing is parked": {"keys": ()},
    "gone at 7": {"keys": THREE, "released": {7: GONE}},
    "k fails again": {"keys": THREE, "released": {"k": replace(DONE, failed_at=6, reason="again")}},
    "somebody says yes": {"keys": ALIKE, "answer": True},
    "somebody says no": {"keys": ALIKE, "answer": False},
    "a key, and a yes": {"keys": THREE, "answer": True},
    "a key, and a no": {"keys": THREE, "answer": False},
    "not parked": {"added": (replace(DONE, settled=0, reason="no"),)},
    "nothing waits": {"added": ()},
    "three wait behind it": {"keys": (replace(failed(messages=4), untried=3),)},
    "no to the three behind it": {
        "keys": (replace(failed(messages=4), untried=3),), "answer": False,
    },
})  # fmt: skip
