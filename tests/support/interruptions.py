"""Exceptions that end a call between any two of its steps, as Ctrl-C or an alarm's handler raise.

A step is one bytecode of the library's own code, on the calling thread. Python looks for signals
after some of them only; whatever comes between any two must not matter. (What comes at a return is
left out: it is as if it came in the caller.)
"""

import dis
import sys
from pathlib import Path

import orderly

_HOME = str(Path(orderly.__file__).parent)
_TESTING = str(Path(orderly.__file__).parent / "testing")


_RETURNS = {code for name, code in dis.opmap.items() if name.startswith("RETURN_")}


class Alarm(Exception):
    """What a program's handler of SIGALRM raises."""


# An alarm's exception is often a TimeoutError, which is an OSError, as a socket's errors are.
KINDS = (KeyboardInterrupt, Alarm, TimeoutError)


def interrupted(call, at, kind=KeyboardInterrupt):
    """Interrupt `call()` before its step number `at`, counted from 1.

    Returns:
        Where it was; None if the call has fewer steps, and ended.

    Raises:
        AssertionError: the call ended with something else.
    """
    error, place = kind("raised by a test"), []
    try:
        with _Raising(error, at, place):
            call()
    except BaseException as raised:
        if raised is not error:
            raise AssertionError(f"{kind.__name__} at {place} became {raised!r}") from raised
        return place[0]
    assert not place, f"the interruption at {place} was swallowed"
    return None


class _Raising:
    """Raises an error before a step of what runs inside, and notes the place."""

    def __init__(self, error, at, place):
        self._error = error
        self._left = at
        self._place = place
        self._before = None

    def __enter__(self):
        self._before = sys.gettrace()
        sys._getframe().f_trace_opcodes = True  # Python 3.12 looks whether anybody wants them
        sys.settrace(self._called)

    def __exit__(self, *_):
        sys.settrace(self._before)

    def _called(self, frame, _event, _arg):
        name = frame.f_code.co_filename
        if not name.startswith(_HOME) or name.startswith(_TESTING):
            return None
        return self._step

    def _step(self, frame, event, _arg):
        frame.f_trace_opcodes = True  # at the first line: before that, Python 3.12 and 3.13 miss it
        if event == "opcode" and frame.f_code.co_code[frame.f_lasti] not in _RETURNS:
            self._left -= 1
            if self._left == 0:
                sys.settrace(None)
                code = frame.f_code
                self._place.append(f"{code.co_filename[len(_HOME) :]}:{frame.f_lineno}")
                raise self._error
        return self._step


def at_each_step(call, check, every=1, *, prepare=lambda step: step, kinds=KINDS):
    """Call again and again, each time interrupted at a later step, until the call ends.

    Args:
        call: gets what `prepare` returned.
        check: called after each interruption with the number of the step, and the place.
        every: 1: at each step; n: at each n-th.
        prepare: gets the number of the step; is not interrupted.
        kinds: of exceptions, in turn.

    Returns:
        How many steps the call had, about.
    """
    step = 1
    while True:
        kind = kinds[step // every % len(kinds)]
        given = prepare(step)
        place = interrupted(lambda given=given: call(given), step, kind)
        if place is None:
            return step
        check(step, place)
        step += every
