"""A zip of pure Python for Spark's processes, which need none of our packages installed.

`ship` sends it to the executors of a program that has orderly installed. `write_bundle` writes it
for spark-submit, where the program itself runs without, beside a script that starts our jobs. What
is compiled (PySpark, pyarrow, numpy, pandas, matplotlib) is to be on the machines, as in every
cluster that runs PySpark with Arrow.
"""

from __future__ import annotations

import io
import os
import tempfile
import weakref
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING

from orderly.compiled import MARKER
from orderly.durable_file import FOR_ALL, replacing
from orderly.errors import ConfigError
from orderly.extras import install

if TYPE_CHECKING:
    from pyspark import SparkContext

ZIP, SCRIPT = "orderly.zip", "orderly_job.py"
SHIPPED = ("structlog", "tenacity")  # what reading and writing take
PACKAGES = (*SHIPPED, "click", "jinja2", "markupsafe")  # what the jobs take
_DISTRIBUTION = "rocketmq-orderly"
_COMPILED = {".so", ".pyd", ".pyc", ".pyo"}
_DATE = (1980, 1, 1, 0, 0, 0)  # equal contents give equal bytes

ENTRY = '''\
"""Runs a job of orderly on a cluster:

    spark-submit --py-files orderly.zip orderly_job.py audit TOPIC --namesrv HOST:PORT
"""

import sys

if sys.version_info < (3, 11):
    sys.exit("error: orderly needs Python 3.11 or newer, this is %s: let PYSPARK_PYTHON name one"
             % sys.version.split()[0])

from orderly.cli import main

main("spark")
'''


def write_bundle(directory: Path) -> tuple[Path, Path]:
    """Write the zip and the script; those of an earlier call are replaced.

    Args:
        directory: where to; it is made if it is not there.

    Returns:
        The paths of both.

    Raises:
        ConfigError: a package is not installed here, or the files cannot be written.
    """
    packed = bundle(PACKAGES)
    archive, script = directory / ZIP, directory / SCRIPT
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for path, content in ((archive, packed), (script, ENTRY.encode())):
            with replacing(path, FOR_ALL) as file:
                file.write(content)
    except OSError as error:
        raise ConfigError(f"cannot write to {directory}: {error.strerror}") from error
    return archive, script


def bundle(packages: Iterable[str]) -> bytes:
    """The zip, with these packages beside orderly."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(_contents(packages)):
            info = zipfile.ZipInfo(name, _DATE)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            archive.writestr(info, content)
    return packed.getvalue()


def _contents(packages: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    home = Path(__file__).parents[1]  # installed, or in a checkout
    for path in home.rglob("*"):
        if path.is_file() and _is_pure(path):
            yield path.relative_to(home.parent).as_posix(), path.read_bytes()
    for package in packages:
        yield from _package(package)
    metadata = _installed(_DISTRIBUTION)
    folder = f"rocketmq_orderly-{metadata.version}.dist-info"  # has the version
    yield f"{folder}/METADATA", (metadata.read_text("METADATA") or "").encode()


def _package(name: str) -> Iterator[tuple[str, bytes]]:
    """The files of an installed distribution, with its license and metadata."""
    for file in _installed(name).files or ():
        path = Path(str(file.locate()))
        if ".." not in file.parts and _is_pure(path) and path.is_file():
            yield file.as_posix(), path.read_bytes()


def _installed(name: str) -> Distribution:
    try:
        return distribution(name)
    except PackageNotFoundError as error:
        raise ConfigError(f"{name} is not installed here: {install('cli', 'spark')}") from error


def _is_pure(path: Path) -> bool:
    compiled = path.suffix in _COMPILED or "__pycache__" in path.parts
    return not compiled and path.name != MARKER  # a zip has sources only


# --- to the processes of an application -----------------------------------------------------------


def ship(context: SparkContext) -> None:
    """Let all Python processes of an application import this library. Once is enough.

    Executors get the zip as one of the application's files. The process that plans a stream does
    not look where Spark puts those, and it runs on the driver's machine: it gets the zip by
    PYTHONPATH, which executors get, too, and where that path does not exist.

    Nothing is to do on a local master: there all processes run this Python.

    Raises:
        ConfigError: a package that belongs into the zip is not installed here.
    """
    path = context.environment.get("PYTHONPATH", "")
    if any(Path(place).name == ZIP for place in path.split(os.pathsep)):
        return
    archive = _imported_from()
    if archive is None:
        if (context.master or "").partition("[")[0] == "local":
            return
        archive = _added(context)
    context.environment["PYTHONPATH"] = os.pathsep.join(filter(None, (archive, path)))


def _imported_from() -> str | None:
    """The zip that this library was imported from, as by `--py-files`; None: from a folder."""
    home = Path(__file__).parents[2]
    return str(home.absolute()) if home.is_file() else None


def _added(context: SparkContext) -> str:
    """Make the zip a file of the application; returns where the driver's machine has it."""
    folder = tempfile.TemporaryDirectory(prefix="orderly-spark-")
    weakref.finalize(context, folder.cleanup)  # executors that come later fetch it from here
    archive = Path(folder.name, ZIP)
    archive.write_bytes(bundle(SHIPPED))
    context.addPyFile(str(archive))
    return str(archive)
