"""Functions that tell of what they raise because their text is wrong, and change nothing else."""

import contextlib
import functools
import inspect

_OF_THE_TEXT = (TypeError, AttributeError, NameError, LookupError)


def watched(value, tell):
    """What is to be put into the library; whatever is no function, nor made of some, as it is.

    Args:
        value: a function, a property, or anything.
        tell: called with a text for each exception that can only come from a wrong text.
    """
    if isinstance(value, property):
        of = [watched(function, tell) for function in (value.fget, value.fset, value.fdel)]
        return property(*of)
    if inspect.isfunction(value):
        return functools.wraps(value)(_watched(value, functools.partial(_telling, value, tell)))
    return value


def _watched(function, telling):
    if inspect.isgeneratorfunction(function):

        def call(*args, **options):
            with telling():
                return (yield from function(*args, **options))

    elif inspect.iscoroutinefunction(function):

        async def call(*args, **options):
            with telling():
                return await function(*args, **options)

    else:

        def call(*args, **options):
            with telling():
                return function(*args, **options)

    return call


@contextlib.contextmanager
def _telling(function, tell):
    try:
        yield
    except _OF_THE_TEXT as error:
        tell(f"{function.__qualname__}: {type(error).__name__}: {error}")
        raise
