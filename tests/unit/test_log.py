"""Events reach the application's logging, whichever it has, and never print by themselves."""

import logging
import subprocess
import sys

import pytest
import structlog

from orderly.log import QUEUE_FIELDS, get_logger, where
from tests.support.messages import QUEUE, message


@pytest.fixture
def plain_logging():
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()


def test_without_structlog_configured_events_go_to_standard_logging(plain_logging, caplog):
    log = get_logger("orderly.test", group="g")
    with caplog.at_level(logging.INFO, "orderly.test"):
        log.info("queue assigned", queue_id=3)
        log.debug("not shown")
    assert [r.name for r in caplog.records] == ["orderly.test"]
    assert "queue assigned" in caplog.text
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
