"""From start to end: each once, and never an end while a call runs."""

import os
import signal
import threading

import pytest

from orderly.errors import LifecycleError, NativeCallFailed
from orderly.native import library
from orderly.native.library import Life


class Told(list):
    def life(self, start=lambda: None):
        return Life("producer", lambda: (start(), self.append("start")), lambda: self.append("end"))


def test_it_begins_once_and_ends_once():
    told = Told()
    life = told.life()
    life.begin()
    with pytest.raises(LifecycleError, match="started only once"):
        life.begin()
    life.finish()
    life.finish()
    assert told == ["start", "end"]
    with pytest.raises(LifecycleError, match="is closed; make a new one"), life.call():
        pass


def test_what_never_began_has_no_end():
    told = Told()
    life = told.life()
    with pytest.raises(LifecycleError, match="is not started"):
        life.check()
    life.finish()
    assert told == []


def test_a_start_that_fails_leaves_nothing_to_end():
    def cannot():
        raise NativeCallFailed("no")

    told = Told()
    life = told.life(cannot)
    with pytest.raises(NativeCallFailed):
        life.begin()
    life.finish()
    assert told == []


def test_the_end_waits_for_the_calls_that_run_and_no_other_begins():
    told = Told()
    life = told.life()
    life.begin()
    with life.call():
        ending = threading.Thread(target=life.finish)
        ending.start()
        ending.join(0.05)
        assert told == ["start"]
        with pytest.raises(LifecycleError), life.call():
            pass
    ending.join(10)
    assert told == ["start", "end"]


def test_every_finish_waits_for_the_end():
    ending, go, told = threading.Event(), threading.Event(), []
    life = Life("consumer", lambda: None, lambda: (ending.set(), go.wait(30), told.append("end")))
    life.begin()
    first = threading.Thread(target=life.finish)
    second = threading.Thread(target=lambda: (life.finish(), told.append("after it")))
    first.start()
    assert ending.wait(30)
    second.start()
    second.join(0.05)
    go.set()
    first.join(30)
    second.join(30)
    assert told == ["end", "after it"]


def test_a_finish_that_ctrl_c_ended_can_be_repeated():
    told = Told()
    life = told.life()
    life.begin()
    with life.call():
        interrupts = threading.Timer(
            0.1, signal.pthread_kill, (threading.get_ident(), signal.SIGINT)
        )
        interrupts.start()
        with pytest.raises(KeyboardInterrupt):
            life.finish()
        interrupts.join()
    library._finish_all()
    assert told == ["start", "end"]


def test_the_end_of_the_process_ends_all_that_run_the_latest_first():
    told = []
    lives = [Life("producer", lambda: None, lambda name=name: told.append(name)) for name in "abc"]
    for life in lives:
        life.begin()
    lives[1].finish()
    library._finish_all()
    assert told == ["b", "c", "a"]


def test_a_child_of_a_fork_neither_runs_nor_ends_it(monkeypatch):
    told = Told()
    life = told.life()
    life.begin()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(LifecycleError, match="forked"):
        life.check()
    life.finish()
    assert told == ["start"]
    monkeypatch.undo()
    life.finish()
    assert told == ["start", "end"]
