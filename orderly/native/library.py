"""librocketmq itself: found, loaded, its calls with their types."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterable
from ctypes.util import find_library as find_installed
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from orderly.errors import NativeCallFailed, NativeLibraryError
from orderly.native import signatures
from orderly.native.signatures import CONSUMING, NEWER, OK, PRODUCING

VARIABLE = "ORDERLY_LIBROCKETMQ"
HOW_TO_GET_IT = (
    "librocketmq is on no package registry: its project, apache/rocketmq-client-cpp, has packages"
    " for some systems among its releases on GitHub, and builds it with its build.sh;"
    f" then set {VARIABLE} to the path of librocketmq.so."
    " OrderlyProducer and OrderlyConsumer do without it"
)
_SUFFIX = ".dylib" if sys.platform == "darwin" else ".so"
_USUAL = tuple(
    f"{folder}/librocketmq{_SUFFIX}" for folder in ("/usr/local/lib", "/usr/lib", "/usr/lib64")
)


def find_library() -> str | None:
    """Return where librocketmq is, or None.

    ORDERLY_LIBROCKETMQ wins, whatever it names; then the one within rocketmq-client-python, then
    the system's.
    """
    if named := os.environ.get(VARIABLE):
        return named
    return _beside_the_binding() or find_installed("rocketmq") or _usual()


def _beside_the_binding() -> str | None:
    """The one that rocketmq-client-python's wheels hold; the package is not imported."""
    spec = find_spec("rocketmq")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    return _first(f"{folder}/librocketmq{_SUFFIX}" for folder in folders)


def _usual() -> str | None:
    return _first(_USUAL)


def _first(paths: Iterable[str]) -> str | None:
    return next((path for path in paths if Path(path).exists()), None)


class Library:
    """librocketmq, loaded. Thread-safe.

    Args:
        path: of the library; None: where `find_library` finds it.

    Attributes:
        path: of the library.

    Raises:
        NativeLibraryError: there is none, or it cannot be loaded.
    """

    def __init__(self, path: str | None = None) -> None:
        found = path or find_library()
        if found is None:
            raise NativeLibraryError(f"no librocketmq was found. {HOW_TO_GET_IT}")
        self.path = found
        try:
            self._dll = ctypes.CDLL(found)
        except OSError as error:
            raise NativeLibraryError(
                f"librocketmq at {found} cannot be loaded: {error}; it must be built for this"
                f" machine, and what it links to be installed. {HOW_TO_GET_IT}"
            ) from error
        self._calls = {
            name: call
            for name, signature in {**PRODUCING, **CONSUMING, **NEWER}.items()
            if (call := self._typed(name, signature)) is not None
        }

    def _typed(self, name: str, signature: signatures.Signature) -> Callable[..., Any] | None:
        call = getattr(self._dll, name, None)
        if call is not None:
            call.restype, *call.argtypes = signature
        return call

    def __contains__(self, name: str) -> bool:
        return name in self._calls

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """Return a C call.

        Raises:
            NativeLibraryError: this library does not have it.
        """
        self.require((name,))
        return self._calls[name]

    def missing(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return those of `names` that this library does not have."""
        return tuple(name for name in names if name not in self._calls)

    def require(self, names: Iterable[str]) -> None:
        """Raise NativeLibraryError unless the library has all of `names`."""
        if missing := self.missing(names):
            raise NativeLibraryError(
                f"librocketmq at {self.path} lacks {', '.join(missing)}: it is older than what"
                f" this needs (docs/how-to/native.md), or not librocketmq at all. {HOW_TO_GET_IT}"
            )

    def do(self, name: str, *arguments: Any) -> None:
        """Make a call that returns a status.

        Raises:
            NativeCallFailed: the status is not OK.
        """
        status = self[name](*arguments)
        if status != OK:
            raise NativeCallFailed(f"{name}: status {status}{self.last_error()}", code=status)

    def last_error(self) -> str:
        """Return ": " and the text of this thread's last failed call, or "".

        After a send it is often not the cause.
        """
        if "GetLatestErrorMessage" not in self:
            return ""
        text = (self["GetLatestErrorMessage"]() or b"").decode("utf-8", "replace").strip()
        return f": {text}" if text else ""
