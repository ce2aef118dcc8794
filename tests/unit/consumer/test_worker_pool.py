"""The worker pool: enough threads, no more, and none that idles for ever."""

import sys
import threading

import pytest

from orderly.consumer.workers import WorkerPool
from tests.support.waiting import eventually


@pytest.fixture
def make_pool():
    pools = []

    def make(*args, **kwargs):
        pools.append(WorkerPool("test", *args, **kwargs))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


def test_tasks_that_block_each_get_a_thread_up_to_the_maximum(make_pool):
    pool = make_pool(1, 3)
    release, together = threading.Event(), threading.Barrier(4)

    def task():
        together.wait(30)
        release.wait(30)

    for _ in range(3):
        pool.submit(task)
    together.wait(30)
    assert pool.threads == 3
    pool.submit(lambda: None)
    assert pool.threads == 3
    assert pool.crowded
    release.set()
    eventually(lambda: not pool.crowded)


def test_idle_threads_end_down_to_the_minimum(make_pool):
    pool = make_pool(1, 4, idle=0.05)
    together = threading.Barrier(4)
    for _ in range(4):
        pool.submit(lambda: together.wait(30))
    eventually(lambda: pool.threads == 1)


@pytest.mark.parametrize("fail", [lambda: 1 / 0, sys.exit], ids=["error", "exit"])
def test_a_failing_task_does_not_cost_a_thread(make_pool, fail):
    pool, done = make_pool(1, 1), threading.Event()
    names = []
    for task in (fail, done.set):
        pool.submit(lambda task=task: (names.append(threading.current_thread().name), task()))
    assert done.wait(30)
    assert pool.threads == 1
    assert len(set(names)) == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_breaks_down_all_the_same_is_replaced(make_pool, monkeypatch):
    monkeypatch.setattr("orderly.consumer.workers.get_logger", lambda *_, **__: None)
    pool, done = make_pool(1, 1), threading.Event()
    pool.submit(sys.exit)
    eventually(lambda: pool.threads == 0)
    pool.submit(done.set)
    assert done.wait(30)


def test_every_task_runs_exactly_once(make_pool):
    pool, lock, ran = make_pool(1, 4, idle=0.001), threading.Lock(), []

    def task(number):
        with lock:
            ran.append(number)

    for number in range(2000):
        pool.submit(lambda number=number: task(number))
    eventually(lambda: len(ran) == 2000)
    assert sorted(ran) == list(range(2000))


def test_close_ends_all_threads_and_takes_no_more_tasks(make_pool):
    pool = make_pool(2, 4)
    started = threading.Event()
    pool.submit(started.set)
    assert started.wait(30)
    pool.close()
    pool.close()
    eventually(lambda: pool.threads == 0)
    pool.submit(lambda: pytest.fail("ran after close"))
    assert pool.threads == 0


def refuse(self):
    raise RuntimeError("can't start new thread")


def test_a_system_without_further_threads_leaves_the_work_to_those_that_are_there(
    make_pool, monkeypatch
):
    pool = make_pool(1, 3)
    release, done = threading.Event(), []
    pool.submit(lambda: release.wait(30))
    eventually(lambda: not pool.crowded)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    pool.submit(lambda: done.append(1))
    assert pool.threads == 1
    release.set()
    eventually(lambda: done)


def test_a_system_without_any_thread_is_an_error_and_the_task_is_not_kept(make_pool, monkeypatch):
    pool = make_pool(1, 3)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            pool.submit(lambda: pytest.fail("it was refused"))
    done = threading.Event()
    pool.submit(done.set)
    assert done.wait(30)
