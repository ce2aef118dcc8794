"""The jars of broker and proxy: downloaded once per user, checked against committed SHA-256 sums.

Each file is written under a temporary name and renamed only when it is whole and its sum is
right, so an interrupted download leaves nothing that is used, and two processes may download side
by side. What is kept is checked again before it is used, once a process and file.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from orderly.errors import EmbeddedBrokerError
from orderly.extras import install
from orderly.testing.cache import cache_folder

MAVEN_CENTRAL = "https://repo1.maven.org/maven2"
_THREADS = 8
_PATIENCE = 30.0  # seconds without a byte
_BLOCK = 64 * 1024  # bytes
_NOT_KEPT = (
    "the repository in ORDERLY_MAVEN_URL, or a proxy on the way, serves something else; nothing"
    " was kept"
)

Progress = Callable[[int, int], None]
"""Called with (bytes present so far, bytes in all); from several threads, one at a time."""


class JarsUnavailable(EmbeddedBrokerError):
    """A jar could not be downloaded or stored, or is not the one in the list."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One line of the list: SHA-256 in hex, size in bytes, path in a Maven repository."""

    path: str
    size: int
    sha256: str

    @property
    def name(self) -> str:
        """The file's name; unique in the list."""
        return self.path.rsplit("/", 1)[-1]


def listed_jars(path: Path | None = None, *, proxy: bool = False) -> tuple[Jar, ...]:
    """Return the jars of a list.

    Args:
        path: the list, of another RocketMQ release for example; default: the file that ORDERLY_JARS
            names, else the committed list.
        proxy: those of the proxy instead, which needs all of the committed list and more.

    Raises:
        JarsUnavailable: it cannot be read, or is no list.
    """
    named = None if proxy else path or os.environ.get("ORDERLY_JARS")
    committed = resources.files("orderly.testing")
    names = ("jars.txt", "proxy-jars.txt") if proxy else ("jars.txt",)
    files = [Path(named)] if named else [committed / name for name in names]
    return tuple(jar for file in files for jar in _read(file))


def _read(file: Traversable) -> list[Jar]:
    try:
        lines = (line for line in file.read_text("utf-8").splitlines() if line)
        rows = (line.split() for line in lines if not line.startswith("#"))
        return [Jar(path, int(size), digest) for digest, size, path in rows]
    except (OSError, ValueError) as error:
        raise JarsUnavailable(
            f"{file} is no list of jars ({error}): a line is a SHA-256, a size in bytes and a"
            " path in a Maven repository; see `jars` and ORDERLY_JARS"
        ) from error


def fetch_jars(
    folder: Path | None = None,
    *,
    jars: Iterable[Jar] | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Return the paths of all jars, downloading those that are not there.

    Args:
        folder: where they are kept; default: `cache_folder()`/jars.
        jars: default: `listed_jars()`.
        progress: see Progress.

    Raises:
        JarsUnavailable: no network, no space, a wrong sum. What is whole by then is kept.
    """
    folder = folder or cache_folder() / "jars"
    wanted = tuple(listed_jars() if jars is None else jars)
    count = _Count(sum(jar.size for jar in wanted), progress)
    _make(folder)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="orderly-jars") as pool:
        pending = [pool.submit(_fetch, jar, folder, count) for jar in wanted]
        try:
            return [future.result() for future in pending]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


class _Count:
    """Adds up what is present and reports it to the caller."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._total = total
        self._progress = progress
        self._present = 0
        self._lock = threading.Lock()

    def add(self, size: int) -> None:
        with self._lock:
            self._present += size
            if self._progress is not None:
                self._progress(self._present, self._total)


def _fetch(jar: Jar, folder: Path, count: _Count) -> Path:
    target = folder / jar.name
    if not _is_kept(jar, target):
        _download(jar, target)
    count.add(jar.size)
    return target


def _is_kept(jar: Jar, target: Path) -> bool:
    try:
        found = target.stat()
        return (
            found.st_size == jar.size
            and _sum_of(target, found.st_ino, found.st_ctime_ns) == jar.sha256
        )
    except OSError:
        return False


@functools.cache
def _sum_of(path: Path, _number: int, _changed: int) -> str:
    """SHA-256 of a file that was not changed since, by the system's own time stamp."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _download(jar: Jar, target: Path) -> None:
    base = os.environ.get("ORDERLY_MAVEN_URL", MAVEN_CENTRAL).rstrip("/")
    url = f"{base}/{jar.path}"
    target.unlink(missing_ok=True)
    try:
        _pooch().retrieve(
            url,
            f"sha256:{jar.sha256}",
            fname=jar.name,
            path=target.parent,
            downloader=functools.partial(_download_at_most, jar.size),
        )
    except OSError as error:
        raise JarsUnavailable(_why(error, url, target.parent)) from error
    except ValueError as error:  # pooch: the sum differs
        raise JarsUnavailable(
            f"{url} is not the file in the list (its SHA-256 differs); {_NOT_KEPT}"
        ) from error


def _download_at_most(size: int, url: str, path: str, _: Any) -> None:
    """Let no server fill the disk: a file of the list has a known size."""
    import requests  # noqa: PLC0415 - optional: of pooch

    with (
        requests.get(url, timeout=_PATIENCE, stream=True) as answer,
        Path(path).open("wb") as file,
    ):
        answer.raise_for_status()
        for block in answer.iter_content(_BLOCK):
            size -= len(block)
            if size < 0:
                raise JarsUnavailable(f"{url} is longer than the file in the list; {_NOT_KEPT}")
            file.write(block)


def _why(error: OSError, url: str, folder: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"no space left in {folder}: the broker's jars take about 100 MB; set ORDERLY_CACHE"
    if isinstance(error, PermissionError):
        return f"{folder} cannot be written: set ORDERLY_CACHE to a folder of yours"
    return (
        f"{url} could not be downloaded ({error}): check the network and proxy settings, or set"
        " ORDERLY_MAVEN_URL to a Maven repository you can reach"
    )


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise JarsUnavailable(_why(error, "", folder)) from error


def _pooch() -> Any:
    try:
        import pooch  # noqa: PLC0415 - optional: extra `embedded`
    except ImportError as error:
        raise JarsUnavailable(
            f"the embedded broker needs an extra: {install('embedded')}"
        ) from error
    pooch.get_logger().setLevel("ERROR")
    return pooch
