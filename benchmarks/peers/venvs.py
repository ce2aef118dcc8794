"""Python packages of peers, each in a virtual environment of its own in the user's cache."""

import contextlib
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.peers.launch import CHECKOUT, SideFailed
from orderly.testing.cache import cache_folder

_PATIENCE = 300.0  # seconds, for the download
_VERSION = f"py{sys.version_info.major}{sys.version_info.minor}"


def python_with(package, version):
    """The interpreter of an environment that has this package; made when it is first asked for.

    Raises:
        SideFailed: it could not be installed.
    """
    folder = cache_folder() / "peers" / f"{package}-{version}-{_VERSION}"
    ready = folder / "ready"
    if not ready.exists():
        shutil.rmtree(folder, ignore_errors=True)
        _run(sys.executable, "-m", "venv", folder)
        _run(folder / "bin" / "pip", "install", "--quiet", f"{package}=={version}")
        ready.touch()
    return folder / "bin" / "python"


def site_packages(python):
    """Where the packages of that interpreter are."""
    return next((python.parent.parent / "lib").glob("python*/site-packages"))


def platform_wheel():
    """The interpreter of an environment that has this checkout's platform wheel.

    Raises:
        SideFailed: it could not be built; it needs a C compiler.
    """
    return Path(_run(sys.executable, CHECKOUT / ".ci" / "wheels.py", "--install").split()[-1])


def _run(*command):
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        raise SideFailed(f"{' '.join(words)} took more than {_PATIENCE:g} s") from None
    except subprocess.CalledProcessError as error:
        last = error.stderr.strip().splitlines()[-1:]
        raise SideFailed(f"{' '.join(words)} failed: {''.join(last)}") from error
    return done.stdout


@contextlib.contextmanager
def bundled(python, library):
    """Let rocketmq-client-python load this librocketmq: it prefers one in its own folder."""
    place = site_packages(python) / "rocketmq" / "librocketmq.so"
    place.unlink(missing_ok=True)
    place.symlink_to(Path(library).resolve())
    try:
        yield
    finally:
        place.unlink(missing_ok=True)
