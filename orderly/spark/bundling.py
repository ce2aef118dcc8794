"""What spark-submit takes to run our jobs: a zip of pure Python, and a script that starts them.

In the zip: orderly, the module by which Spark finds the format "rocketmq", and the packages they
need that are pure Python. What is compiled (PySpark, pyarrow, numpy, pandas, matplotlib) is to be
on the machines, as in every cluster that runs PySpark with Arrow.
"""

from __future__ import annotations

import importlib.util
import io
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from orderly.errors import ConfigError
from orderly.extras import install

ZIP, SCRIPT = "orderly.zip", "orderly_job.py"
PACKAGES = ("structlog", "tenacity", "click", "jinja2", "markupsafe")
_OURS = ("orderly", "pyspark_orderly")
_DISTRIBUTION = "rocketmq-orderly"
_COMPILED = {".so", ".pyd", ".pyc", ".pyo"}
_DATE = (1980, 1, 1, 0, 0, 0)  # equal contents give equal bytes

ENTRY = '''\
"""Runs a job of orderly on a cluster:

    spark-submit --py-files orderly.zip orderly_job.py audit TOPIC --namesrv HOST:PORT
"""

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
    packed = bundle()
    archive, script = directory / ZIP, directory / SCRIPT
    try:
        directory.mkdir(parents=True, exist_ok=True)
        archive.write_bytes(packed)
        script.write_text(ENTRY, "utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write to {directory}: {error.strerror}") from error
    return archive, script


def bundle() -> bytes:
    """The zip."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(_contents()):
            info = zipfile.ZipInfo(name, _DATE)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            archive.writestr(info, content)
    return packed.getvalue()


def _contents() -> Iterator[tuple[str, bytes]]:
    for module in _OURS:
        yield from _module(module)
    for package in PACKAGES:
        yield from _package(package)
    metadata = _installed(_DISTRIBUTION)
    folder = f"rocketmq_orderly-{metadata.version}.dist-info"  # has the version
    yield f"{folder}/METADATA", (metadata.read_text("METADATA") or "").encode()


def _module(name: str) -> Iterator[tuple[str, bytes]]:
    """The files of a module or package as it is imported here, installed or from a checkout."""
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        raise ConfigError(f"{name} is not installed here: {install('cli', 'spark')}")
    origin = Path(found.origin)
    if not found.submodule_search_locations:
        yield origin.name, origin.read_bytes()
        return
    for path in origin.parent.rglob("*"):
        if path.is_file() and _is_pure(path):
            yield path.relative_to(origin.parents[1]).as_posix(), path.read_bytes()


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
    return path.suffix not in _COMPILED and "__pycache__" not in path.parts
