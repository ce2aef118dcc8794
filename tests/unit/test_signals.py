"""A signal as a note: what is replaced, what is not, and that all is put back."""

import os
import signal
import threading

import pytest

from orderly.signals import heard

NUMBERS = (signal.SIGTERM, signal.SIGINT)
DEFAULTS = (signal.SIG_DFL, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _python_s_own_handlers():
    """What a script runs in the background inherits that SIGINT is ignored."""
    before = [
        signal.signal(number, default) for number, default in zip(NUMBERS, DEFAULTS, strict=True)
    ]
    yield
    for number, handler in zip(NUMBERS, before, strict=True):
        signal.signal(number, handler)


def handlers():
    return tuple(map(signal.getsignal, NUMBERS))


@pytest.mark.parametrize("number", NUMBERS)
def test_the_first_one_leaves_a_note_and_the_second_would_end_the_process(number):
    with heard() as told:
        assert told() is None
        assert set(handlers()).isdisjoint(DEFAULTS)
        signal.raise_signal(number)
        assert told() is number
        assert handlers() == (signal.SIG_DFL, signal.SIG_DFL)
    assert handlers() == DEFAULTS
    assert told() is number, "whoever looks after the last look finds it"


def test_without_a_signal_all_is_as_before():
    with heard() as told:
        pass
    assert (handlers(), told()) == (DEFAULTS, None)


def test_an_old_note_does_not_end_the_next_wait():
    with heard():
        signal.raise_signal(signal.SIGTERM)
    with heard() as told:
        assert told() is None


@pytest.mark.parametrize("own", [signal.SIG_IGN, lambda number, frame: None])
def test_a_program_s_handlers_stay(own):
    signal.signal(signal.SIGTERM, own)
    with heard() as told:
        assert signal.getsignal(signal.SIGTERM) is own
        signal.raise_signal(signal.SIGTERM)
        assert told() is None
        signal.raise_signal(signal.SIGINT)
        assert told() is signal.SIGINT
        assert signal.getsignal(signal.SIGTERM) is own
    assert handlers() == (own, signal.default_int_handler)


def test_what_a_program_sets_meanwhile_stays():
    with heard():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    assert handlers() == (signal.SIG_IGN, signal.SIG_DFL)


def test_turned_off_it_replaces_nothing():
    with heard(wanted=False) as told:
        assert handlers() == DEFAULTS
        assert told() is None


def test_in_another_thread_it_replaces_nothing():
    seen = []

    def elsewhere():
        with heard() as told:
            seen.append((handlers(), told()))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [(DEFAULTS, None)]


def test_those_that_overlap_read_one_note_and_the_last_puts_back():
    first, second = heard(), heard()
    told = first.__enter__(), second.__enter__()
    first.__exit__(None, None, None)
    signal.raise_signal(signal.SIGTERM)
    assert [each() for each in told] == [signal.SIGTERM] * 2
    second.__exit__(None, None, None)
    assert handlers() == DEFAULTS


def test_a_fork_ends_as_without_us():
    with heard() as told:
        pid = os.fork()
        if not pid:
            signal.alarm(60)  # a hang-guard
            os.kill(os.getpid(), signal.SIGTERM)
            while True:
                pass  # the handler runs between two of these
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGTERM
        assert told() is None
