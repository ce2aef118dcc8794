"""The tree of errors answers what a loop has to know."""

import inspect

import pytest

from orderly import errors

TREE = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]


def test_every_error_is_one_of_ours_and_stands_in_the_drawing():
    for kind in TREE:
        assert issubclass(kind, errors.OrderlyError)
        assert kind.__name__ in errors.__doc__, kind


@pytest.mark.parametrize(
    ("kind", "retriable", "refresh_route"),
    [
        (errors.RequestTimeout, True, True),
        (errors.ConnectFailed, True, True),
        (errors.BrokerBusy, True, False),
        (errors.BrokerUnavailable, True, True),
        (errors.TopicNotFound, False, True),
        (errors.NoPermission, False, True),
        (errors.OffsetNotFound, False, False),
        (errors.ConfigError, False, False),
        (errors.ProtocolError, False, False),
    ],
)
def test_answers(kind, retriable, refresh_route):
    assert (kind.retriable, kind.refresh_route) == (retriable, refresh_route)


def test_standard_types_fit_too():
    assert issubclass(errors.ConfigError, ValueError)
    assert issubclass(errors.RequestTimeout, TimeoutError)
    assert issubclass(errors.LifecycleError, RuntimeError)
    assert issubclass(errors.NotAvailableYet, NotImplementedError)
