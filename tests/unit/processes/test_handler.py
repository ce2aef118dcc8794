"""Handlers in worker processes: nothing that happens there acks by accident or is left over."""

import functools
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import structlog

from orderly import ConsumerConfig, OrderlyConsumer
from orderly.errors import (
    ConfigError,
    HandlerHung,
    LifecycleError,
    LockLost,
    NotPicklable,
    RequestTimeout,
    WorkerDied,
)
from orderly.ordering.context import ConsumeContext
from orderly.ordering.results import Ack, ConsumeResult, Fail
from orderly.processes import handler as process_handler
from orderly.processes.handler import PROCESS_NAME, ProcessHandler, WorkerProcess
from orderly.processes.messages import OwnershipNews
from tests.support import workers as handlers
from tests.support.messages import QUEUE
from tests.support.waiting import eventually
from tests.support.workers import batch

ROOT = Path(__file__).parents[3]


class Hold:
    """A ownership whose owner is the test."""

    def __init__(self, extend=lambda: 200.0):
        self.token = 7
        self.generation_of = lambda key, replayed: 2
        self.deadline = 100.0
        self.lost = threading.Event()
        self.extend = extend


class Asked:
    """A ownership whose deadline depends on how often it was asked for."""

    token = None

    def generation_of(self, key, replayed):
        return 0

    def __init__(self, deadline):
        self.lost = threading.Event()
        self._deadline = deadline
        self._times = itertools.count(1)

    @property
    def deadline(self):
        return self._deadline(next(self._times))


@pytest.fixture(scope="module", autouse=True)
def main_without_a_file():
    """Spares each worker the import of pytest, which is our main module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(sys.modules["__main__"], "__file__", raising=False)  # xdist: has none
        patch.setattr(sys.modules["__main__"], "__spec__", None)
        yield


@pytest.fixture(scope="module")
def shared():
    """For tests that leave its process as they found it."""
    handler = ProcessHandler(handlers.act, "group")
    yield handler
    handler.close()


@pytest.fixture
def handler():
    handler = ProcessHandler(handlers.act, "group")
    yield handler
    handler.kill()
    handler.close()


@pytest.fixture
def beside():
    with ThreadPoolExecutor(4) as threads:
        yield threads.submit


def call(handler, *bodies, ownership=None, **fields):
    context = ConsumeContext(QUEUE, "group", ownership=ownership or Hold(), **fields)
    return handler(batch(*bodies), context)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def gone(*pids):
    eventually(lambda: not any(map(alive, pids)))


def test_the_handler_gets_the_messages_and_the_context(shared):
    answer = call(shared, "tell_all", "2nd", attempt=3, key=("k", 1))
    assert answer == (batch("tell_all", "2nd"), 3, ("k", 1), "group", 7, 100.0)


def test_what_the_handler_sets_takes_effect_in_the_parent(shared):
    ownership = Hold()
    context = ConsumeContext(QUEUE, attempt=2, ownership=ownership)
    assert shared(batch("set_all", "", ""), context) is ConsumeResult.SUSPEND
    assert (context.auto_commit, context.suspend_seconds) == (False, 5)
    assert (context.finished, context.untried, context.rejected) == ({17}, {18}, {19: "bad"})
    assert (context.attempt, context.ownership) == (2, ownership)


def test_what_it_set_before_it_raised_takes_effect_too(shared):
    context = ConsumeContext(QUEUE)
    with pytest.raises(ValueError, match="no good"):
        shared(batch("set_and_raise"), context)
    assert context.finished == {17}


def test_a_context_without_ownership_is_never_lost_there_either(shared):
    context = ConsumeContext(QUEUE)
    assert shared(batch("extend"), context) == (float("inf"), float("inf"))
    assert shared(batch("never_lost"), context) == (False, False)


def test_answers_come_back_as_they_are(shared):
    assert call(shared, "success") is ConsumeResult.SUCCESS
    assert call(shared, "ack") == Ack()
    assert call(shared, "fail") == Fail("because")


def test_an_error_comes_back_with_the_traceback_of_the_worker(shared):
    with pytest.raises(ValueError, match="no good") as caught:
        call(shared, "raises")
    (note,) = caught.value.__notes__
    assert "workers.py" in note
    assert "in raises" in note


@pytest.mark.parametrize(
    ("action", "error"), [("leave", SystemExit), ("interrupt", KeyboardInterrupt)]
)
def test_leaving_is_a_failure_of_the_call_only(shared, action, error):
    pid = call(shared, "my_pid")
    with pytest.raises(error):
        call(shared, action)
    assert call(shared, "my_pid") == pid


@pytest.mark.parametrize(
    ("action", "text"),
    [
        ("answer_lambda", "the answer (function) cannot be pickled"),
        ("raise_unpicklable", "Unpicklable: kept"),
        ("raise_awkward", "Awkward: only one"),
        ("set_lambda", "set in its context (dict) cannot be pickled"),
    ],
)
def test_what_cannot_be_pickled_is_a_failure_with_its_text(shared, action, text):
    pid = call(shared, "my_pid")
    with pytest.raises(NotPicklable) as caught:
        call(shared, action)
    assert text in str(caught.value)
    assert call(shared, "my_pid") == pid


def test_a_key_that_cannot_be_pickled_is_a_failure(handler):
    with pytest.raises(NotPicklable, match="key"):
        call(handler, "ack", key=threading.Lock())
    assert call(handler, "ack") == Ack()


@pytest.mark.parametrize(
    ("action", "code", "way"),
    [
        ("die_by_exit", 0, "exit code 0"),
        ("die_by_signal", -signal.SIGKILL, "SIGKILL"),
        ("close_everything", -signal.SIGKILL, "SIGKILL"),
    ],
)
def test_a_death_fails_its_call_and_the_next_one_has_a_new_process(handler, action, code, way):
    first = call(handler, "my_pid")
    fourth = [message.changed(reconsume_times=3) for message in batch(action)]
    with structlog.testing.capture_logs() as events, pytest.raises(WorkerDied) as caught:
        handler(fourth, ConsumeContext(QUEUE, "group", attempt=4, key="k"))
    assert (caught.value.exit_code, caught.value.offset) == (code, 17)
    assert way in str(caught.value)
    assert str(QUEUE) in str(caught.value)
    (event,) = events
    assert event["log_level"] == "error"
    seen = {name: event[name] for name in ("topic", "offset", "key", "attempt", "exit_code")}
    assert seen == {"topic": "orders", "offset": 17, "key": "k", "attempt": 4, "exit_code": code}
    assert call(handler, "my_pid") != first


def in_batch(handler, *bodies):
    """A call that ends with its process, and its context."""
    context = ConsumeContext(QUEUE, "group", ownership=Hold(), key="k")
    with structlog.testing.capture_logs() as events, pytest.raises(WorkerDied) as caught:
        handler(batch(*bodies), context)
    assert [event["offset"] for event in events] == [caught.value.offset]
    return context, caught.value


def test_what_was_named_done_before_a_death_is_done(handler):
    context, died = in_batch(handler, "name_two_and_die", "", "", "")
    assert (context.finished, context.untried, died.offset) == ({17, 18}, {20}, 19)


def test_what_was_named_in_a_call_before_says_nothing_of_the_one_that_died(handler):
    call(handler, "name_all", "")
    context, died = in_batch(handler, "die_by_exit", "")
    assert (context.finished, context.untried, died.offset) == (set(), {17, 18}, 17)


def test_notes_of_many_calls_fill_no_pipe(handler):
    for _ in range(300):  # of 1,200 bytes each
        call(handler, "name_all", *range(199))
    context, _ = in_batch(handler, "name_two_and_die", "", "")
    assert context.finished == {17, 18}


def test_a_process_that_dies_in_its_start_has_tried_nothing(handler, monkeypatch, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import os; os._exit(3)")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(program), raising=False)
    context, died = in_batch(handler, "ack")
    assert (context.finished, context.untried, died.exit_code) == (set(), {17}, 3)


def test_a_process_that_cannot_be_started_has_tried_nothing(handler, monkeypatch):
    def no_room(*_):
        raise OSError("no room")

    monkeypatch.setattr(process_handler, "WorkerProcess", no_room)
    context = ConsumeContext(QUEUE, "group", ownership=Hold())
    with pytest.raises(OSError, match="no room"):
        handler(batch("ack", "ack"), context)
    assert context.untried == {17, 18}


def test_a_worker_killed_in_the_middle_fails_its_call_only(handler, beside, tmp_path):
    paths = [tmp_path / "killed", tmp_path / "other"]
    killed = beside(call, handler, "stay", paths[0])
    other = beside(call, handler, "wait_for_file", paths[1])
    eventually(lambda: all(map(Path.exists, paths)) and paths[0].read_text())
    os.kill(int(paths[0].read_text()), signal.SIGKILL)
    with pytest.raises(WorkerDied, match="SIGKILL"):
        killed.result(30)
    paths[1].unlink()
    assert other.result(30)


def test_an_idle_worker_that_died_fails_no_call(handler):
    pid = call(handler, "my_pid")
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: pid not in {child.pid for child in multiprocessing.active_children()})
    assert call(handler, "my_pid") != pid


def test_what_ends_a_program_is_ignored_and_stdin_is_empty(shared):
    assert call(shared, "signal_myself") == Ack()
    assert call(shared, "read_stdin") == ""
    assert call(shared, "blocked_signals") == set()


def test_a_program_that_a_handler_starts_can_be_ended(shared):
    assert call(shared, "end_a_program") == -signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_ends_a_program_is_ignored_during_the_start(handler, beside, number):
    before = set(multiprocessing.active_children())
    answer = beside(call, handler, "ack")
    (new,) = eventually(lambda: set(multiprocessing.active_children()) - before)
    os.kill(new.pid, number)
    assert answer.result(10) == Ack()


@pytest.mark.parametrize(
    ("action", "answer"),
    [("wait_for_lost", (True, True, True)), ("wait_in_another_thread", [True])],
)
def test_a_running_handler_learns_that_the_queue_is_lost(shared, beside, tmp_path, action, answer):
    ownership, started = Hold(), tmp_path / "started"
    running = beside(call, shared, action, started, ownership=ownership)
    eventually(started.exists)
    ownership.lost.set()
    assert running.result(30) == answer


def test_a_queue_lost_before_is_lost_at_once_and_the_next_one_is_not(shared, tmp_path):
    ownership = Hold()
    ownership.lost.set()
    assert call(shared, "never_lost", ownership=ownership) == (True, True)
    assert call(shared, "never_lost") == (False, False)


def test_news_that_came_too_late_for_a_call_is_not_news_to_the_next(handler):
    call(handler, "ack")
    handler._local.seat.worker._pipe.send(OwnershipNews(1.0, lost=True))
    assert call(handler, "never_lost") == (False, False)


def test_a_renewed_deadline_reaches_a_running_handler(shared):
    def renewed(asked):
        return 100.0 + (asked > 1)

    assert call(shared, "wait_for_deadline", ownership=Asked(renewed)) == 101.0


def test_extend_asks_the_parent(shared):
    assert call(shared, "extend") == (200.0, 200.0)


@pytest.mark.parametrize(
    ("error", "lost"), [(LockLost("gone"), True), (RequestTimeout("t"), False)]
)
def test_what_extend_raises_in_the_parent_is_raised_in_the_handler(shared, error, lost):
    def extend():
        raise error

    raised, seen_lost = call(shared, "extend_until_lost", ownership=Hold(extend))
    assert (type(raised), str(raised), seen_lost) == (type(error), str(error), lost)


def test_a_call_that_broke_in_the_parent_answers_no_other_call(handler, tmp_path):
    def broken(asked):
        if asked > 1:
            raise RuntimeError("defect")
        return 1.0

    pid, path = call(handler, "my_pid"), tmp_path / "started"
    with pytest.raises(RuntimeError, match="defect"):
        call(handler, "wait_for_file", path, ownership=Asked(broken))
    path.unlink()
    gone(pid)
    assert call(handler, "fail") == Fail("because")


def test_a_second_answer_is_taken_for_no_other_call(handler):
    assert call(handler, "answer_twice") == Ack()
    with pytest.raises(WorkerDied):
        call(handler, "fail")
    assert call(handler, "fail") == Fail("because")


def test_a_context_used_after_its_call_does_not_disturb_the_next_ones(handler):
    call(handler, "leave_a_thread")
    for _ in range(100):
        assert call(handler, "fail") == Fail("because")


def test_each_thread_has_a_process_which_ends_with_it(handler):
    def pids():
        return {call(handler, "my_pid") for _ in range(100)}

    with ThreadPoolExecutor(2) as threads:
        both = threading.Barrier(2)
        first, second = threads.map(lambda _: (both.wait(), pids())[1], range(2))
        assert len(first) == len(second) == 1
        assert all(map(alive, first | second))
        assert first != second
    assert not any(map(alive, first | second))
    assert not any(child.pid in first | second for child in multiprocessing.active_children())


def test_close_ends_idle_processes_and_lets_a_call_finish(handler, beside, tmp_path):
    path = tmp_path / "started"
    idle = call(handler, "my_pid")
    running = beside(call, handler, "wait_for_file", path)
    eventually(path.exists)
    handler.close()
    handler.close()
    assert not alive(idle)
    with pytest.raises(LifecycleError):
        call(handler, "ack")
    path.unlink()
    gone(running.result(30))


def test_kill_ends_a_running_call(handler, beside, tmp_path):
    path = tmp_path / "pid"
    running = beside(call, handler, "stay", path)
    eventually(lambda: path.exists() and path.read_text())
    handler.kill()
    with pytest.raises(WorkerDied, match="SIGKILL"):
        running.result(30)
    gone(int(path.read_text()))


def test_a_call_that_hangs_is_killed_alone(handler, beside, tmp_path):
    paths, contexts = [tmp_path / "one", tmp_path / "two"], [ConsumeContext(QUEUE) for _ in "ab"]
    calls = [beside(handler, batch("stay", p), c) for p, c in zip(paths, contexts, strict=True)]
    eventually(lambda: all(path.exists() and path.read_text() for path in paths))
    handler.kill_call(contexts[0])
    with pytest.raises(HandlerHung) as caught:
        calls[0].result(30)
    assert isinstance(caught.value.__cause__, WorkerDied)
    gone(int(paths[0].read_text()))
    assert alive(int(paths[1].read_text()))
    assert not calls[1].done()
    handler.kill()


def test_a_call_that_is_over_cannot_be_killed(handler):
    context = ConsumeContext(QUEUE)
    pid = handler(batch("my_pid"), context)
    handler.kill_call(context)
    assert call(handler, "my_pid") == pid


def test_a_process_that_was_killed_too_late_gets_no_further_call(handler, monkeypatch):
    """Its call had answered already; it may take a moment to die."""
    monkeypatch.setattr(WorkerProcess, "kill", lambda worker: None)
    worker_call = WorkerProcess.call

    def killed_as_it_answers(worker, messages, context):
        answer = worker_call(worker, messages, context)
        handler.kill_call(context)
        return answer

    monkeypatch.setattr(WorkerProcess, "call", killed_as_it_answers)
    first = call(handler, "my_pid")
    assert call(handler, "my_pid") != first
    monkeypatch.undo()


def test_a_consumer_may_be_made_in_a_worker_and_not_started(monkeypatch):
    """The module of its handler may well be where it is made."""
    config = ConsumerConfig(executor="process")
    monkeypatch.setattr(multiprocessing.current_process(), "name", f"{PROCESS_NAME}group-1")
    consumer = OrderlyConsumer("group", handlers.act, namesrv="127.0.0.1:1", config=config)
    with pytest.raises(ConfigError, match="under `if __name__"):
        consumer.start()
    assert consumer.state == "created"


@pytest.mark.parametrize("end", [lambda parent: parent.kill(), lambda parent: parent.stdin.close()])
def test_no_worker_outlives_its_parent(tmp_path, end):
    command = [sys.executable, "-m", "tests.support.workers", tmp_path / "pid"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as parent:
        idle, busy = map(int, parent.stdout.readline().split())
        assert alive(idle)
        assert alive(busy)
        end(parent)
        parent.wait(10)
    gone(idle, busy)


def nested():
    def inner(messages, context):
        return Ack()

    return inner


@pytest.mark.parametrize(
    "bad",
    [
        lambda messages, context: Ack(),
        nested(),
        "tests.support.workers.act",
        handlers.handle_async,
        functools.partial(handlers.handle_async),
        handlers.AsyncShop(),
        handlers.Shop(threading.Lock()).handle,
        handlers.Shop(threading.Lock()),
        functools.partial(nested()),
    ],
)
def test_a_handler_no_other_process_can_import_is_refused(bad):
    with pytest.raises(ConfigError):
        ProcessHandler(bad, "group")


def test_the_error_names_the_function_and_what_to_do():
    text = r"nested.<locals>.inner has no name .* pass a plain function from the top level"
    with pytest.raises(ConfigError, match=text):
        ProcessHandler(nested(), "group")


@pytest.mark.parametrize(
    "good", [handlers.ack, handlers.Shop().handle, handlers.Shop(), functools.partial(handlers.ack)]
)
def test_what_can_be_imported_is_taken(good):
    ProcessHandler(good, "group").close()


HANDLER = """
from orderly.ordering.results import Ack
def handle(messages, context):
    return Ack()
"""
USE = """
from orderly.processes.messages import OwnershipNews
from orderly.processes.handler import ProcessHandler
from orderly.ordering.context import ConsumeContext
from tests.support.messages import QUEUE, message
print(ProcessHandler(handle, "group")([message(1)], ConsumeContext(QUEUE)))
"""
GUARDED = 'if __name__ == "__main__":' + USE.replace("\n", "\n    ")
IMPORTED = "from shop.handlers import handle\n"


@pytest.mark.parametrize(
    ("files", "arguments", "output"),
    [
        ({"run.py": HANDLER + GUARDED}, ["run.py"], "Ack()"),
        ({"shop/run.py": HANDLER + GUARDED}, ["-m", "shop.run"], "Ack()"),
        (
            {"shop/handlers.py": HANDLER, "shop/__main__.py": IMPORTED + USE},
            ["-m", "shop"],
            "Ack()",
        ),
        ({"shop/__main__.py": HANDLER + USE}, ["-m", "shop"], "from __main__; with"),
        ({"run.py": HANDLER + USE}, ["run.py"], 'under `if __name__ == "__main__":`'),
        ({}, ["-c", HANDLER + USE], "from __main__; with"),
    ],
    ids=["script", "module", "package", "handler in __main__.py", "unguarded script", "no file"],
)
def test_ways_to_start_the_parent(tmp_path, files, arguments, output):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"}
    command = [sys.executable, *arguments]
    ran = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=30, check=False
    )
    assert output in ran.stdout + ran.stderr
    assert ran.returncode == (0 if output == "Ack()" else 1)
