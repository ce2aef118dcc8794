"""`orderly offsets`: what is shown, what is refused, and what is sent of what was shown."""

from contextlib import contextmanager
from types import SimpleNamespace
from unittest import mock

from orderly.cli import offsets as module
from orderly.errors import GroupNotFound, RequestTimeout
from orderly.model import MessageQueue
from orderly.monitoring.backlog.snapshot import QueueStatus
from orderly.monitoring.backlog.states import QueueState
from orderly.monitoring.collecting import survey
from tests.support.snapshots import AT, group, snapshot
from tests.unit.cli.golden.transcript import Table, client_is


def row(minimum, committed, maximum, queue_id=0, state=QueueState.OK):
    queue = MessageQueue("orders", "broker-a", queue_id)
    return QueueStatus("shipping", queue, state, "", minimum, committed, maximum)


ROWS = (row(2, 5, 9), row(2, None, 9, 1))


@contextmanager
def world(rows=ROWS, members=("c1",), failure=None, found=4):
    """A group with these offsets; tells what was reset, and which time was looked for."""
    asked = []

    def connections(_group):
        if members is None:
            raise RequestTimeout("no reply")
        ids = [SimpleNamespace(client_id=name) for name in members]
        return SimpleNamespace(connections=ids) if ids else None

    def reset(group, offsets):
        if failure:
            raise failure
        told = ", ".join(f"{queue.queue_id} to {offset}" for queue, offset in offsets.items())
        asked.append(f"{group}: {told}")

    def search(queue, moment):
        asked.append(f"{queue.queue_id} at {moment}")
        return found

    client = mock.Mock()
    client.admin.consumer_connections = connections
    client.groups.reset_queues = reset
    client.brokers.search_offset = search
    scan = snapshot(group("shipping", list(rows))) if rows else snapshot()
    with (
        client_is(client),
        mock.patch.object(survey, "survey", return_value=scan),
        mock.patch.object(module, "time", SimpleNamespace(time=lambda: AT)),
    ):
        yield asked


UNKNOWN = QueueState.UNKNOWN
TABLE = Table(__file__, world, {
    "0 and none": {"rows": (row(2, 0, 9), row(2, None, 9, 1))},
    "not all was read": {"rows": (row(2, None, 9, 0, UNKNOWN), row(None, 5, None, 1, UNKNOWN))},
    "nothing of a queue was read": {"rows": (row(2, 5, 9), row(None, None, None, 1, UNKNOWN))},
    "no offsets": {"rows": ()},
    "two online": {"members": ("c1", "c2")},
    "nobody online": {"members": ()},
    "who is online is not known": {"members": None},
    "found at 0": {"found": 0},
    "after the last": {"found": 50},
    "somebody says yes": {"answer": True},
    "somebody says no": {"answer": False},
    "a broker refuses": {"failure": GroupNotFound("no such group", code=26)},
})  # fmt: skip
