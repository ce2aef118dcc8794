"""The check of a handler that other processes are to run: they have to find it by its name.

A worker process is a new interpreter. It gets the handler as `pickle` writes a function: the name
of its module and its own, which the worker imports.
"""

from __future__ import annotations

import inspect
import pickle
import sys
from pathlib import Path

from orderly.errors import ConfigError

_WHAT_TO_DO = "with executor='process' pass a plain function from the top level of a module"


def pickled(handler: object) -> bytes:
    """Return `handler` as bytes from which a worker process gets it again.

    Raises:
        ConfigError: a lambda, a nested or async function, something of an interactive session, or
            a method or object that cannot be pickled.
    """
    if not callable(handler):
        raise ConfigError(f"the handler must be callable, not {type(handler).__name__}")
    name = getattr(handler, "__qualname__", type(handler).__qualname__)
    if any(map(inspect.iscoroutinefunction, (handler, type(handler).__call__))):
        raise ConfigError(f"{name} is async; {_WHAT_TO_DO}")
    if "<" in name:  # "<lambda>", "outer.<locals>.inner"
        raise ConfigError(f"{name} has no name a worker process could import; {_WHAT_TO_DO}")
    try:
        data = pickle.dumps(handler)
    except Exception as error:  # pickle runs code of the user's classes
        raise ConfigError(f"{name} cannot be pickled ({error}); {_WHAT_TO_DO}") from error
    if b"__main__" in data and not _main_can_be_imported():
        raise ConfigError(f"worker processes cannot import {name} from __main__; {_WHAT_TO_DO}")
    return data


def _main_can_be_imported() -> bool:
    """True if a spawned process runs our main module again, under the name `__mp_main__`.

    It does for a script and for `python -m module`, not for a package's __main__.py (rules of
    multiprocessing.spawn), and an interactive session has no file to run.
    """
    main = sys.modules["__main__"]
    if (spec := getattr(main, "__spec__", None)) is not None:
        return str(spec.name).rpartition(".")[2] != "__main__"
    file = getattr(main, "__file__", None)
    return file is not None and Path(file).is_file()
