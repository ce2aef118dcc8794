"""A model of worker processes: a call runs on a task of its own, which may end or be killed.

It takes the place of `orderly.processes.handler.WorkerProcess`; what uses that is real. Nothing is
pickled, and nothing is slower.
"""

import contextlib
from copy import copy
from functools import partial
from unittest import mock

import orderly.processes.handler as process_handler
from orderly.ordering.context import ConsumeContext
from orderly.processes.handler import _died
from orderly.processes.messages import SENT, SET_BY_HANDLER, set_state, state_of
from tests.simulation.handlers import WorkerEnds

_KILLED = -9


class Worker:
    """One worker process, as `WorkerProcess` looks to its owner.

    Args:
        world: has `kernel`, `witness` and `happened`.
        handler: what it runs.
        name: of the process.
    """

    def __init__(self, world, handler, name):
        self.serving = None
        self.hung = False
        self.ended = False
        self.begun = True
        self._world = world
        self._handler = handler
        self._name = name
        self._task = None
        self._outcome = None

    @property
    def usable(self):
        return not self.ended and not self.hung

    def call(self, messages, context):
        """Run the handler; of its context the caller sees what comes back with the answer."""
        kernel = self._world.kernel
        inside = ConsumeContext(messages[0].queue, ownership=context.ownership)
        set_state(inside, _copied(context, SENT))
        self._outcome = None
        self._task = kernel.spawn(partial(self._run, tuple(messages), inside), self._name)
        self._task.waiters.append(kernel.current)
        while not self._task.done:
            kernel.park()
        if self._outcome is None:
            self.ended = True
            self._world.happened["worker died"] += 1
            context.finished.update(inside.finished)
            left = [m for m in messages if m.queue_offset not in inside.finished]
            raise _died(_KILLED, left or messages)
        set_state(context, _copied(inside, SET_BY_HANDLER))
        answer, error = self._outcome
        if error is not None:
            raise error
        return answer

    def _run(self, messages, context):
        try:
            self._outcome = self._handler(messages, context), None
        except WorkerEnds:
            pass
        except Exception as error:
            self._outcome = None, error

    def kill(self):
        """End it at once, in the middle of its call if there is one."""
        self.ended = True
        if self._task is not None and not self._task.done:
            self._world.witness.worker_killed(self._task)
            self._world.kernel.end(self._task)

    def end(self, patience=0.0):
        """End it; it is idle."""
        self.ended = True

    hang_up = end


def _copied(context, names):
    """Those fields, as after a pickle: a worker that dies takes most of them with it."""
    return {name: copy(value) for name, value in state_of(context, names).items()}


@contextlib.contextmanager
def modelled(world):
    """Have consumers with executor="process" use the model."""
    with (
        mock.patch.object(process_handler, "WorkerProcess", partial(Worker, world)),
        mock.patch.object(process_handler, "pickled", lambda handler: handler),
        mock.patch.object(process_handler.ProcessHandler, "check_place", return_value=None),
    ):
        yield
