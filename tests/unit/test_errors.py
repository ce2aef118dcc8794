"""The tree of errors is one; what each answers a loop is frozen (tests/frozen)."""

import inspect

from orderly import errors

TREE = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]


def test_every_error_is_one_of_ours_and_stands_in_the_drawing():
    for kind in TREE:
        assert issubclass(kind, errors.OrderlyError)
        assert kind.__name__ in errors.__doc__, kind
