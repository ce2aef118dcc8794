"""The standard library's threading, time and futures, as far as the library uses them, on a kernel.

`installed(kernel)` puts them into every module of `orderly` that imported the real ones. Nothing of
the library is written for the simulation: it runs as it is.
"""

import asyncio as real_asyncio
import contextlib
import functools
import random as real_random
import sys
import threading as real_threading
import time as real_time
from concurrent.futures import CancelledError, Future, InvalidStateError, ThreadPoolExecutor
from types import SimpleNamespace
from unittest import mock

from orderly import interruptions
from tests.simulation.event_loop import KernelLoop

EPOCH = 1_700_000_000.0  # virtual time 0 on the wall clock


class Lock:
    """threading.Lock, and RLock with `reentrant`."""

    __slots__ = ("_depth", "_kernel", "_owner", "_reentrant", "_waiting")

    def __init__(self, kernel, reentrant=False):
        self._kernel = kernel
        self._owner = None
        self._depth = 0
        self._waiting = []
        self._reentrant = reentrant

    def acquire(self, blocking=True, timeout=-1):
        kernel = self._kernel
        me = kernel.current
        if me is None:  # an event, or the end of the run: alone in the world
            return True
        if kernel.chance() < kernel.restless:
            kernel.breathe()
        if self._reentrant and self._owner is me:
            self._depth += 1
            return True
        if self._owner is None:
            self._owner, self._depth = me, 1
            return True
        return blocking and self._take(me, None if timeout < 0 else kernel.now + timeout)

    def _take(self, me, deadline):
        kernel = self._kernel
        while self._owner is not None:
            if self._owner.process.dead and self._owner.process is not me.process:
                raise AssertionError("a lock is shared between processes")
            left = None if deadline is None else deadline - kernel.now
            if left is not None and left <= 0:
                return False
            self._waiting.append(me)
            kernel.park(left)
            if me in self._waiting:
                self._waiting.remove(me)
        self._owner, self._depth = me, 1
        return True

    def _is_owned(self):
        return self._owner is not None and self._owner is self._kernel.current

    def release(self):
        self._depth -= 1
        if self._depth > 0:
            return
        self._owner, self._depth = None, 0
        if self._waiting:
            self._kernel.unpark(self._waiting.pop(0))

    def locked(self):
        return self._owner is not None

    def __enter__(self):
        kernel = self._kernel
        me = kernel.current
        if self._owner is not None or me is None:
            return self.acquire()
        if kernel.chance() < kernel.restless:
            kernel.breathe()
            if self._owner is not None:
                return self._take(me, None)
        self._owner, self._depth = me, 1
        return True

    def __exit__(self, *exc_info):
        if self._depth == 1 and not self._waiting:
            self._owner, self._depth = None, 0
        else:
            self.release()

    def release_all(self):
        depth, self._depth = self._depth, 1
        self.release()
        return depth

    def acquire_again(self, depth):
        self.acquire()
        self._depth = depth


class Condition:
    """threading.Condition."""

    def __init__(self, kernel, lock=None):
        self._kernel = kernel
        self._lock = lock = lock or Lock(kernel, reentrant=True)
        self._enter, self._exit = lock.__enter__, lock.__exit__
        self._is_owned = lock._is_owned
        self._waiting = []

    def __enter__(self):
        return self._enter()

    def __exit__(self, *exc_info):
        self._exit()

    def acquire(self, *args):
        return self._lock.acquire(*args)

    def release(self):
        self._lock.release()

    def wait(self, timeout=None):
        me = self._kernel.current
        self._waiting.append(me)
        depth = self._lock.release_all()
        notified = self._kernel.park(timeout)
        if me in self._waiting:
            self._waiting.remove(me)
        self._lock.acquire_again(depth)
        return notified

    def wait_for(self, predicate, timeout=None):
        deadline = None if timeout is None else self._kernel.now + timeout
        while not (result := predicate()):
            left = None if deadline is None else deadline - self._kernel.now
            if left is not None and left <= 0:
                break
            self.wait(left)
        return result

    def notify(self, n=1):
        if not self._waiting:
            return
        for _ in range(min(n, len(self._waiting))):
            self._kernel.unpark(self._waiting.pop(0))

    def notify_all(self):
        self.notify(len(self._waiting))


class Event:
    """threading.Event."""

    def __init__(self, kernel):
        self._changed = Condition(kernel, Lock(kernel))
        self._flag = False

    def is_set(self):
        return self._flag

    def set(self):
        with self._changed:
            self._flag = True
            self._changed.notify_all()

    def clear(self):
        self._flag = False

    def wait(self, timeout=None):
        with self._changed:
            return self._changed.wait_for(lambda: self._flag, timeout)


class Thread:
    """threading.Thread."""

    def __init__(self, kernel, target, name="", daemon=True, args=()):
        self._kernel = kernel
        self._work = lambda: target(*args)
        self.name = name
        self.daemon = daemon
        self.task = None

    @property
    def ident(self):
        return id(self.task)

    def start(self):
        self.task = self._kernel.spawn(self._work, self.name)
        self.task.daemon = self

    def is_alive(self):
        return self.task is not None and not self.task.done

    def join(self, timeout=None):
        kernel = self._kernel
        deadline = None if timeout is None else kernel.now + timeout
        while self.is_alive():
            left = None if deadline is None else deadline - kernel.now
            if left is not None and left <= 0:
                return
            self.task.waiters.append(kernel.current)
            kernel.park(left)


class Local:
    """threading.local."""

    def __init__(self, kernel):
        self.__dict__.update(_kernel=kernel, _values={})

    def __getattr__(self, name):
        try:
            return self._values[self._kernel.current, name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name, value):
        self._values[self._kernel.current, name] = value


def future_class(kernel):
    """concurrent.futures.Future whose condition belongs to the kernel."""

    class SimFuture(Future):
        def __init__(self):
            super().__init__()
            self._condition = Condition(kernel)

    return SimFuture


class Executor:
    """concurrent.futures.ThreadPoolExecutor with a task a job."""

    def __init__(self, kernel, make_future):
        self._kernel = kernel
        self._make_future = make_future
        self._closed = False

    def submit(self, work, *args, **kwargs):
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future = self._make_future()

        def job():
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(work(*args, **kwargs))
            except Exception as error:
                future.set_exception(error)

        self._kernel.spawn(job, "executor")
        return future

    def shutdown(self, wait=True, *, cancel_futures=False):
        self._closed = True


@contextlib.contextmanager
def installed(kernel):
    """Run `orderly` on `kernel`: its modules get the kernel's threads, clock and futures."""
    make_future = future_class(kernel)
    threading = SimpleNamespace(
        Lock=lambda: Lock(kernel),
        RLock=lambda: Lock(kernel, reentrant=True),
        Condition=lambda lock=None: Condition(kernel, lock),
        Event=lambda: Event(kernel),
        Thread=lambda **options: Thread(kernel, **options),
        local=lambda: Local(kernel),
        get_ident=lambda: id(kernel.current),
        current_thread=lambda: kernel.current and kernel.current.daemon,
        enumerate=list,
        TIMEOUT_MAX=real_threading.TIMEOUT_MAX,
    )
    time = SimpleNamespace(
        monotonic=lambda: kernel.now,
        time=lambda: EPOCH + kernel.now,
        clock_gettime=lambda _: kernel.now,
        sleep=kernel.sleep,
        gmtime=real_time.gmtime,
        strftime=real_time.strftime,
    )
    replacements = {
        real_threading: threading,
        real_time: time,
        real_random: SimpleNamespace(random=kernel.random.random, Random=real_random.Random),
        real_asyncio: _asyncio(kernel),
        Future: make_future,
        ThreadPoolExecutor: lambda *_, **__: Executor(kernel, make_future),
    }
    # No signal comes to a history's tasks, so none runs what it does on a thread of its own.
    shielding = mock.patch.object(interruptions, "ours", return_value=True)
    places = _places(len(sys.modules))
    for module, attribute, value in places:
        if isinstance(value, real_threading.local):  # made when the module was imported
            setattr(module, attribute, Local(kernel))
        else:
            setattr(module, attribute, replacements[value])
    try:
        with shielding:
            yield
    finally:
        for module, attribute, value in places:
            setattr(module, attribute, value)


def _asyncio(kernel):
    """All of asyncio, but new loops are the kernel's; none is kept for this OS thread."""
    names = {name: getattr(real_asyncio, name) for name in real_asyncio.__all__}
    made = {"new_event_loop": lambda: KernelLoop(kernel), "set_event_loop": lambda loop: None}
    return SimpleNamespace(**names | made)


@functools.lru_cache(1)
def _places(modules):
    """Where the real ones are; looked for again once the number of `modules` has changed."""
    real = (real_threading, real_time, real_random, real_asyncio, Future, ThreadPoolExecutor)
    return [
        (module, attribute, value)
        for name, module in sorted(sys.modules.items())
        if module is not None and (name == "orderly" or name.startswith("orderly."))
        for attribute, value in list(vars(module).items())
        if isinstance(value, real_threading.local) or any(value is one for one in real)
    ]


__all__ = ["EPOCH", "CancelledError", "InvalidStateError", "installed"]
