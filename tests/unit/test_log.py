"""Events reach the application's logging, whichever it has, and never print by themselves."""

import logging
import os
import re
import subprocess
import sys

import pytest
import structlog

from orderly.config.arguments import check_flag
from orderly.errors import ConfigError, ProtocolError
from orderly.foreign_text import hidden
from orderly.listening.decoding import decoder
from orderly.log import (
    QUEUE_FIELDS,
    error_text,
    get_logger,
    key_text,
    type_text,
    where,
    without_our_frames,
)
from tests.support.messages import QUEUE, message


@pytest.fixture
def plain_logging():
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()


def test_without_structlog_configured_events_go_to_standard_logging(plain_logging, caplog):
    log = get_logger("orderly.test", group="g")
    with caplog.at_level(logging.INFO, "orderly.test"):
        log.info("queue.assigned", queue_id=3)
        log.debug("not shown")
    assert [r.name for r in caplog.records] == ["orderly.test"]
    assert "queue.assigned" in caplog.text
    assert "group='g'" in caplog.text
    assert "queue_id=3" in caplog.text


def test_with_structlog_configured_later_events_go_there(plain_logging):
    log = get_logger("orderly.test", group="g")
    with structlog.testing.capture_logs() as events:
        log.warning("lost", queue_id=3)
    assert events == [
        {
            "event": "lost",
            "logger": "orderly.test",
            "group": "g",
            "queue_id": 3,
            "log_level": "warning",
        }
    ]


def test_a_program_that_configures_nothing_sees_nothing_below_warning():
    code = "from orderly.log import get_logger; get_logger('orderly.x').info('hello')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == done.stderr == ""


EMIT = """
from orderly.log import get_logger
try:
    raise ValueError("no \\x1b[2J account\\nforged")
except ValueError as error:
    log = get_logger("orderly.x", group="g", key=None)
    log.warning("handler.raised", error="e\\x1b", exc_info=error)
"""


def stderr_of(program, *, terminal):
    """What a program writes to stderr that configures no logging."""
    if not terminal:
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
        )
        return done.stderr
    ours, its = os.openpty()
    subprocess.run([sys.executable, "-c", program], stderr=its, check=True, timeout=60)
    os.close(its)
    text = os.read(ours, 65536).decode()
    os.close(ours)
    return text.replace("\r\n", "\n")


TRACEBACK = (
    "  Traceback (most recent call last):\n"
    '    File "<string>", line 4, in <module>\n'
    "  ValueError: no \\x1b[2J account\\nforged\n"
)


def test_on_a_terminal_a_program_without_logging_gets_sentences_and_tracebacks():
    line, _, rest = stderr_of(EMIT, terminal=True).partition("\n")
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d WARNING  the handler raised an error; its messages come again: e\\x1b"
        r" \(group g, handler.raised\)",
        line,
    )
    assert rest == TRACEBACK


def test_elsewhere_it_gets_fields_and_when():
    line, _, rest = stderr_of(EMIT, terminal=False).partition("\n")
    assert re.fullmatch(
        r"time='\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ' level='warning' event='handler.raised'"
        r" group='g' error='e\\\\x1b'",
        line,
    )
    assert rest == TRACEBACK


def test_a_program_that_configures_logging_gets_the_exception_and_its_own_format():
    program = f"import logging; logging.basicConfig(format='mine %(message)s')\n{EMIT}"
    for terminal in (False, True):
        line, _, rest = stderr_of(program, terminal=terminal).partition("\n")
        assert line == r"mine event='handler.raised' group='g' error='e\\x1b'"
        assert "ValueError" in rest


def test_a_record_has_its_fields_and_what_was_raised(plain_logging, caplog):
    error = decoding_error()
    get_logger("orderly.test", group="g", key=None).error("a.b", exc_info=error, n=1)
    (record,) = caplog.records
    assert record.event_fields == {"event": "a.b", "group": "g", "n": 1}
    assert record.exc_info[1] is error
    assert "\n" not in record.getMessage()


def test_the_places_of_a_failure_are_below_the_line(plain_logging, caplog):
    get_logger("orderly.test").error("a.b", stack="ValueError\n  File 'a.py'")
    assert caplog.records[0].getMessage() == "event='a.b'"
    assert "event='a.b'\n  ValueError\n    File 'a.py'\n" in caplog.text


def raises(body):
    raise LookupError


def test_the_traceback_of_what_the_program_raised_begins_in_the_program():
    with pytest.raises(LookupError) as raised:
        decoder(raises)(message(7, "k"))
    error = raised.value
    found = without_our_frames(error.with_traceback(error.__traceback__.tb_next))  # not this frame
    assert found.__traceback__.tb_frame.f_code.co_name == "raises"


def test_a_traceback_of_ours_alone_stays():
    with pytest.raises(ConfigError) as raised:
        check_flag("x", None)
    there = raised.value.__traceback__.tb_next
    assert without_our_frames(raised.value.with_traceback(there)).__traceback__ is there


def test_where_always_has_the_same_fields():
    assert tuple(where("g")) == QUEUE_FIELDS
    assert tuple(where("g", QUEUE, message(7, "k")).values()) == (
        "g", "orders", "broker-a", 0, 7, "k", 1,
    )  # fmt: skip


class Unshowable(Exception):
    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__

    def __hash__(self):
        return 1


def decoding_error():
    try:
        b"card=4111111111111111 \xff".decode()
    except UnicodeDecodeError as error:
        return error


def test_a_body_that_is_no_text_is_not_shown_by_the_error_that_says_so():
    text = error_text(decoding_error())
    assert text.startswith("UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff")
    assert "4111" not in text


def test_an_error_is_its_type_and_a_bounded_text():
    assert error_text(ValueError("no such account")) == "ValueError: no such account"
    assert len(error_text(ValueError("x" * 999))) == 200
    assert error_text(Unshowable()) == "Unshowable"


@pytest.mark.parametrize(
    ("value", "text"), [(b"card=4111", "bytes"), (None, "NoneType"), (int, "the class int")]
)
def test_of_a_value_only_the_type_is_shown(value, text):
    assert type_text(value) == text


@pytest.mark.parametrize(
    ("key", "text"),
    [(None, None), ("", ""), ("k", "k"), (7, "7"), (("a", 1), "('a', 1)"),
     (Unshowable(), "Unshowable")],
)  # fmt: skip
def test_a_key_is_shown_as_text(key, text):
    assert key_text(key) == text


def test_a_long_key_is_cut_in_an_event_once_it_is_hashed():
    with structlog.testing.capture_logs() as events:
        for redact in (False, True):
            get_logger("orderly.test").info("a.b", key="x" * 999, keys=["y" * 999], redact=redact)
    assert [(each["key"], each["keys"]) for each in events] == [
        ("x" * 200, ["y" * 200]),
        (hidden("x" * 999), [hidden("y" * 999)]),
    ]


def test_any_other_text_is_cut_too_in_a_field_a_list_and_a_traceback(plain_logging, caplog):
    long = "n" * 100_000  # an error may quote what a server sent
    get_logger("orderly.test").warning(
        "a.b", error=long, topics=[long, "\x1b[2J"], exc_info=ProtocolError(long)
    )
    (record,) = caplog.records
    assert len(record.getMessage()) < 5000
    assert len(record.exc_text) < 5000
    assert "100000 characters" in record.getMessage()
    assert "\x1b" not in record.getMessage()


def test_an_event_that_nobody_wants_does_not_import_structlog():
    program = (
        "import sys; from orderly.log import get_logger; log = get_logger('orderly.test')\n"
        "log = log.bind(queue_id=3)\n"  # as each queue that is taken does
        "log.debug('connection.closed', address='a'); print('structlog' in sys.modules)\n"
        "log.warning('lost'); print('structlog' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["False", "True"]
