"""Build what is released: wheel, source distribution, bill of materials, and their sums.

From the files of this checkout, twice, in different places and under different settings:
the same bytes must come out. Run by `make dist`; tests/packaging uses the parts.

    python .ci/dist.py --output dist
"""

# ruff: noqa: INP001, T201

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent.parent
# What may not show in the bytes: name -> value for the first and for the second build.
SETTINGS: tuple[Mapping[str, str], ...] = (
    {"TZ": "UTC", "LC_ALL": "C", "PYTHONHASHSEED": "1"},
    {"TZ": "Asia/Shanghai", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "2"},
)
UMASKS = (0o022, 0o077)
NEEDED = (
    f"a release is made of what is committed, so {HERE} must be a clone of the repository with at"
    " least one commit: `git clone`, not an unpacked archive"
)


class NotAsItShouldBe(Exception):
    """What stands in the way of a release."""


def main(arguments: list[str] | None = None) -> int:
    """Build, check, say what is missing."""
    parser = argparse.ArgumentParser(description="Build and check what is released.")
    parser.add_argument("--output", type=Path, default=HERE / "dist", help="where it goes")
    parser.add_argument("--dirty", action="store_true", help="also with what is not committed")
    asked = parser.parse_args(arguments)
    try:
        release(asked.output, dirty=asked.dirty)
    except NotAsItShouldBe as error:
        print(f"dist: {error}", file=sys.stderr)
        return 1
    return 0


def release(output: Path, *, dirty: bool) -> None:
    """Fill the folder; files of former builds go.

    Args:
        output: the folder.
        dirty: whether files that are not committed may be in it.

    Raises:
        NotAsItShouldBe: something is not committed, two builds differ, or twine finds a fault.
    """
    if not dirty and (changed := _git("status", "--porcelain")):
        raise NotAsItShouldBe(
            f"these files are not committed:\n{changed}\n"
            "Commit them, or clone the tag elsewhere; `make dist ARGS=--dirty` builds with them,"
            " to try things"
        )
    with TemporaryDirectory() as folder:
        work = Path(folder)
        export(work / "source")
        first, second = (build(work / "source", work / name, n) for n, name in enumerate("ab"))
        if different := sorted(name for name in first if first[name] != second.get(name)):
            raise NotAsItShouldBe(f"two builds differ in {', '.join(different)}")
        for former in output.glob("rocketmq_orderly-*"):
            former.unlink()
        shutil.copytree(work / "a" / "dist", output, dirs_exist_ok=True)
    built = [str(output / name) for name in first]
    _run(sys.executable, "-m", "twine", "check", "--strict", *built)
    _run(sys.executable, str(HERE / ".ci" / "sbom.py"), "--output", str(output / "sbom.cdx.json"))
    print(write_sums(output), end="")


def build(source: Path, folder: Path, number: int) -> dict[str, str]:
    """Build a copy of the source, under the settings of that number.

    Returns:
        Each file in `folder/dist`, and its sum.
    """
    copy = folder / ("copy" * (number + 1))
    shutil.copytree(source, copy, copy_function=shutil.copyfile)
    command = ("-m", "build", "--no-isolation", "--outdir", str(folder / "dist"), str(copy))
    _run(sys.executable, *command, number=number)
    return sums_of(folder / "dist")


def export(folder: Path) -> None:
    """Copy the files of this checkout that git does not ignore, as they are now."""
    listed = _git("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, listed.split("\0")):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # it is removed, and that not committed yet
            shutil.copyfile(HERE / name, target)


def sums_of(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file, by name."""
    files = sorted(folder.iterdir())
    return {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in files}


def write_sums(folder: Path) -> str:
    """Write the sums of all files beside them, and return the text."""
    (folder / "SHA256SUMS").unlink(missing_ok=True)
    sums = "".join(f"{digest}  {name}\n" for name, digest in sums_of(folder).items())
    (folder / "SHA256SUMS").write_text(sums)
    return sums


def _run(*command: str, number: int = 0) -> None:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": _committed_at(), **SETTINGS[number]}
    done = subprocess.run(  # noqa: S603 - our own command lines
        command, check=False, capture_output=True, text=True, env=environment, umask=UMASKS[number]
    )
    if done.returncode:
        raise NotAsItShouldBe(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def _committed_at() -> str:
    """Seconds since the epoch: the time that archives carry."""
    return os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct")


def _git(*arguments: str) -> str:
    command = ("git", "-C", str(HERE), *arguments)
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    except FileNotFoundError as error:
        raise NotAsItShouldBe("git is not installed; on Debian: apt install git") from error
    except subprocess.CalledProcessError as error:
        raise NotAsItShouldBe(f"{NEEDED}; git says: {error.stderr.strip()}") from error
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
