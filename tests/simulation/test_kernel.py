"""The simulated world's own rules: time, locks, pauses, and that a seed is a history."""

from types import SimpleNamespace

import pytest

from orderly.errors import ConnectionLost
from orderly.protocol.codes import RequestCode
from orderly.protocol.frame import request
from orderly.testing.fake.cluster import NAME_SERVER, FakeCluster
from tests.simulation.kernel import Deadlock, Kernel, Process
from tests.simulation.network import NAMESRV, Link, Network
from tests.simulation.threads import Condition, Event, Lock


def run(kernel, *works, limit=100.0):
    process = Process("p")
    tasks = [kernel.spawn(work, f"t{i}", process) for i, work in enumerate(works)]
    try:
        kernel.run(lambda: all(task.done for task in tasks), limit)
    finally:
        kernel.stop()


def test_time_passes_only_while_all_sleep():
    kernel, moments = Kernel(1), []

    def sleeper():
        kernel.sleep(5)
        moments.append(kernel.now)
        kernel.sleep(0.5)
        moments.append(kernel.now)

    began = kernel.now
    run(kernel, sleeper)
    assert [moment - began for moment in moments] == [5.0, 5.5]


@pytest.mark.parametrize("seed", range(20))
def test_a_lock_has_one_holder(seed):
    kernel, inside = Kernel(seed, restless=0.5), []
    lock = Lock(kernel)

    def enter():
        for _ in range(5):
            with lock:
                inside.append(1)
                kernel.sleep(0.1)
                assert inside.pop() == 1
                assert not inside

    run(kernel, enter, enter, enter)


def test_a_condition_wakes_one_waiter_and_a_timeout_the_rest():
    kernel = Kernel(3)
    condition, woken = Condition(kernel), []

    def wait():
        with condition:
            woken.append(condition.wait(10))

    def notify():
        kernel.sleep(1)
        with condition:
            condition.notify()

    run(kernel, wait, wait, notify)
    assert sorted(woken) == [False, True]


def test_an_event_that_nobody_sets_is_a_deadlock():
    kernel = Kernel(1)
    event = Event(kernel)
    with pytest.raises(Deadlock):
        run(kernel, event.wait)


def test_a_paused_process_stands_still_while_time_goes_on():
    kernel, process, seen = Kernel(1), Process("p"), []

    def ticking():
        for _ in range(3):
            kernel.sleep(1)
            seen.append(kernel.now)

    began = kernel.now
    task = kernel.spawn(ticking, "ticking", process)
    kernel.after(1.5, lambda: kernel.pause(process, 10))
    kernel.run(lambda: task.done, 100)
    kernel.stop()
    assert [moment - began for moment in seen] == [1.0, 11.5, 12.5]


def test_a_killed_process_never_runs_again():
    kernel, process, seen = Kernel(1), Process("p"), []

    def ticking():
        try:
            while True:
                kernel.sleep(1)
                seen.append(kernel.now)
        finally:
            seen.append("cleaned up")

    kernel.spawn(ticking, "ticking", process)
    kernel.after(2.5, lambda: kernel.kill(process))
    with pytest.raises(Deadlock):
        kernel.run(lambda: False, 100)
    assert len(seen) == 2
    kernel.stop()


def test_a_seed_is_a_history():
    def history(seed):
        kernel, order = Kernel(seed, restless=0.3), []
        lock = Lock(kernel)

        def work(name):
            for step in range(10):
                with lock:
                    order.append((name, step))

        run(kernel, *(lambda name=name: work(name) for name in "abc"))
        return order

    assert history(7) == history(7)
    assert len({str(history(seed)) for seed in range(10)}) > 5


def test_what_a_task_raises_ends_the_run():
    def boom():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run(Kernel(1), boom, lambda: None)


@pytest.mark.parametrize("ends", [False, True])
def test_an_answer_on_its_way_is_lost_with_its_connection(ends):
    kernel = Kernel(1)
    network = Network(kernel, FakeCluster({}), {NAMESRV: NAME_SERVER})
    heard, replies = [], []
    network.heard = lambda link, command: heard.append(command)

    class Owner:
        def lost(self, link):
            """It was to end."""

    def answered(link, command, outgoing):
        if ends:
            kernel.after(0.0, lambda: network.cut(link))

    network.answered = answered

    def ask():
        link = Link(network, NAMESRV, Owner(), SimpleNamespace(now=lambda: kernel.now))
        network.open(link)
        link.start_reading()
        link.submit(request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "x"}), 3, replies.append)
        kernel.sleep(1)

    run(kernel, ask)
    assert len(heard) == (not ends)
    assert isinstance(replies[0], ConnectionLost) == ends
