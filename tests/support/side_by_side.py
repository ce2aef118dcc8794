"""Which process runs which tests, where several run side by side (`make test`).

A file stays in one process, for its fixtures. Half of the processes begin with files that mostly
wait (for brokers, leases, programs), the longest first, the other half with those that compute:
so the cores are busy while somebody waits for a lease. Who has none of its own kind left takes
the other.
"""

from pathlib import PurePosixPath

from xdist.scheduler import LoadFileScheduling

LONGEST = ("tests/integration/faults", "tests/integration/cluster")
WAIT = ("tests/integration", "tests/behaviour", "tests/contract", "tests/native", "tests/examples")
SHARED = ("tests/integration/cluster",)  # one process has all of it: to start it takes long


class SideBySide(LoadFileScheduling):
    """The scheduler of `--dist loadfile`, with an order of its own."""

    def _split_scope(self, nodeid):
        file = super()._split_scope(nodeid)
        return next((folder for folder in SHARED if _within(file, (folder,))), file)

    def _assign_work_unit(self, node):
        waits = int(node.gateway.id.removeprefix("gw")) % 2 == 0
        self.workqueue.move_to_end(following(self.workqueue, waits=waits), last=False)
        super()._assign_work_unit(node)


def following(files, *, waits):
    """The file that is next, for a process that prefers such as wait, or such as compute."""
    return min(files, key=lambda file: (_within(file, WAIT) != waits, not _within(file, LONGEST)))


def _within(file, folders):
    return any(PurePosixPath(file).is_relative_to(folder) for folder in folders)
