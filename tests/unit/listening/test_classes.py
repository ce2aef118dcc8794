"""What an exception's class says of its failure."""

import pytest

from orderly.errors import BrokerBusy, ConfigError, RequestTimeout, UndecodableBody, WorkerDied
from orderly.listening.classes import Classes
from orderly.ordering.verdict import Kind

NONE = Classes()


@pytest.mark.parametrize(
    ("classes", "error", "kind"),
    [
        (NONE, ValueError(), Kind.ORDINARY),
        (NONE, OSError(), Kind.ORDINARY),
        (NONE, ConnectionResetError(), Kind.TRANSIENT),
        (NONE, TimeoutError(), Kind.TRANSIENT),
        (NONE, RequestTimeout("late"), Kind.TRANSIENT),
        (NONE, BrokerBusy("full"), Kind.TRANSIENT),
        (NONE, ConfigError("wrong"), Kind.ORDINARY),
        (NONE, WorkerDied("gone"), Kind.ORDINARY),
        (NONE, UndecodableBody("garbage"), Kind.FATAL),
        (NONE, UndecodableBody("an extra is missing", retriable=True), Kind.TRANSIENT),
        (Classes(transient=(UndecodableBody,)), UndecodableBody("garbage"), Kind.TRANSIENT),
        (Classes(fatal=(ValueError,)), UnicodeError(), Kind.FATAL),
        (Classes(fatal=(TimeoutError,)), TimeoutError(), Kind.FATAL),
        (Classes(fatal=(TimeoutError,)), ConnectionError(), Kind.TRANSIENT),
        (Classes(transient=(KeyError,)), KeyError(), Kind.TRANSIENT),
        # the nearest named class decides
        (Classes(fatal=(OSError,), transient=(BlockingIOError,)), OSError(), Kind.FATAL),
        (Classes(fatal=(OSError,), transient=(BlockingIOError,)), BlockingIOError(),
         Kind.TRANSIENT),
        (Classes(fatal=(OSError,)), ConnectionError(), Kind.FATAL),
        (Classes(fatal=(FileNotFoundError,), transient=(OSError,)), FileNotFoundError(),
         Kind.FATAL),
    ],
)  # fmt: skip
def test_cell(classes, error, kind):
    assert classes.kind(error) is kind
