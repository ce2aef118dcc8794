"""Events reach the application's logging, whichever it has, and never print by themselves."""

import logging
import subprocess
import sys

import pytest
import structlog

from orderly.foreign_text import hidden
from orderly.log import QUEUE_FIELDS, error_text, get_logger, key_text, type_text, where
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


def test_an_event_that_nobody_wants_does_not_import_structlog():
    program = (
        "import sys; from orderly.log import get_logger; log = get_logger('orderly.test')\n"
        "log.debug('connection.closed', address='a'); print('structlog' in sys.modules)\n"
        "log.warning('lost'); print('structlog' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["False", "True"]
