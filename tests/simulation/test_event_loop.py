"""asyncio on a kernel: virtual time, wake-ups from other tasks, several loops on one OS thread."""

import asyncio
import gc
import sys

import pytest

from tests.simulation.event_loop import KernelLoop
from tests.simulation.kernel import Kernel, Process


class Loops:
    """A kernel with loops; each runs on a task of its own, in a process of its own."""

    def __init__(self, seed=1, restless=0.3):
        self.kernel = Kernel(seed, restless)
        self.began = self.kernel.now
        self.tasks = []

    @property
    def now(self):
        return round(self.kernel.now - self.began, 6)

    def start(self, main, process=None):
        """Run a coroutine to its end on a new loop; returns the loop."""
        loop = KernelLoop(self.kernel)

        def run():
            try:
                loop.run_until_complete(main(loop))
            finally:
                loop.close()

        self.task(run, process)
        return loop

    def task(self, work, process=None):
        self.tasks.append(self.kernel.spawn(work, "task", process or Process("p")))

    def run(self, until=None, limit=100.0):
        try:
            self.kernel.run(until or (lambda: all(task.done for task in self.tasks)), limit)
        finally:
            self.kernel.stop()


def test_a_coroutine_sleeps_in_virtual_time():
    loops, moments = Loops(), []

    async def main(loop):
        await asyncio.sleep(60)
        moments.append(loops.now)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.sleep(50), 5)
        moments.append(loops.now)

    loops.start(main)
    loops.run()
    assert moments == [60.0, 65.0]


@pytest.mark.parametrize("seed", range(20))
def test_a_loop_that_waits_is_woken_by_another_task_and_at_once(seed):
    loops, moments = Loops(seed), []

    async def main(loop):
        woken = asyncio.Event()

        def wake():
            loops.kernel.sleep(3)
            loop.call_soon_threadsafe(woken.set)

        loops.task(wake)
        await woken.wait()
        moments.append(loops.now)

    loops.start(main)
    loops.run()
    assert moments == [3.0]


@pytest.mark.parametrize("seed", range(20))
def test_a_wake_up_that_comes_while_the_loop_is_blocked_elsewhere_is_not_lost(seed):
    loops, moments = Loops(seed), []

    async def main(loop):
        woken = asyncio.Event()
        loops.kernel.after(1, lambda: loop.call_soon_threadsafe(woken.set))
        loops.kernel.sleep(5)  # as a handler that blocks, or a lock that somebody else has
        await woken.wait()
        moments.append(loops.now)

    loops.start(main)
    loops.run()
    assert moments == [5.0]


@pytest.mark.parametrize("seed", range(20))
def test_each_task_sees_its_own_loop_and_the_others_none(seed):
    loops, seen = Loops(seed), []

    async def main(loop):
        for _ in range(5):
            loops.kernel.breathe()
            assert asyncio.get_running_loop() is loop
            assert asyncio.current_task() in asyncio.all_tasks(loop)
            await asyncio.sleep(0.1)
            loops.kernel.sleep(0.1)
        seen.append(loop)

    def outside():
        for _ in range(5):
            loops.kernel.sleep(0.15)
            with pytest.raises(RuntimeError):
                asyncio.get_running_loop()

    made = [loops.start(main) for _ in range(3)]
    loops.task(outside)
    loops.run()
    assert set(seen) == set(made)
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()


def test_a_task_is_cancelled_where_it_waits():
    loops, moments = Loops(), []

    async def main(loop):
        async def work():
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                moments.append(loops.now)
                raise

        working = loop.create_task(work())
        loop.call_later(2, working.cancel)
        with pytest.raises(asyncio.CancelledError):
            await working

    loops.start(main)
    loops.run()
    assert moments == [2.0]


def test_a_paused_process_stands_still_with_its_loop():
    loops, moments, process = Loops(), [], Process("p")

    async def main(loop):
        for _ in range(3):
            await asyncio.sleep(1)
            moments.append(loops.now)

    loops.start(main, process)
    loops.kernel.after(1.5, lambda: loops.kernel.pause(process, 10))
    loops.run()
    assert moments == [1.0, 11.5, 12.5]


def test_what_nobody_handles_ends_the_run():
    loops = Loops()

    async def main(loop):
        loop.call_soon(lambda: 1 / 0)
        await asyncio.sleep(1)

    loops.start(main)
    with pytest.raises(ZeroDivisionError):
        loops.run()


@pytest.mark.parametrize("killed", [False, True])
def test_a_loop_that_is_left_behind_says_nothing(killed, monkeypatch, capfd):
    process, ended = Process("p"), []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: ended.append(what.exc_value))

    _leave_behind(process, killed=killed)
    gc.collect()
    assert not ended
    assert capfd.readouterr().err == ""


def _leave_behind(process, *, killed):
    loops = Loops()

    async def main(loop):
        async def shielded():
            try:
                await asyncio.sleep(1000)
            finally:
                await asyncio.sleep(0)

        loop.create_task(shielded())
        await asyncio.sleep(1000)

    loops.start(main, process)
    if killed:
        loops.kernel.after(5, lambda: loops.kernel.kill(process))
    for second in range(20):
        loops.kernel.after(second, lambda: None)  # so that the kernel looks whether it is over
    loops.run(until=lambda: loops.now > 10)
