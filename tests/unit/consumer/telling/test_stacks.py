"""Stacks as text: of this thread, of one that ended, and never longer than an event may be."""

import re
import threading

from orderly.consumer.hanging import coroutine_stack, thread_stack


def deeper(levels):
    return thread_stack(threading.get_ident()) if levels == 0 else deeper(levels - 1)


def test_the_innermost_call_comes_last():
    functions = re.findall(r"line \d+, in (\w+)", deeper(2))
    assert functions[-5:] == [
        "test_the_innermost_call_comes_last", "deeper", "deeper", "deeper", "thread_stack",
    ]  # fmt: skip


def test_a_long_stack_keeps_what_is_inside():
    stack = deeper(150)
    assert 3000 < len(stack) < 4100
    assert stack.startswith("…")
    assert "in thread_stack" in stack


def test_a_thread_that_has_ended_has_none():
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    assert thread_stack(-1) == ""


def test_what_is_no_coroutine_has_none():
    assert coroutine_stack(object()) == ""
