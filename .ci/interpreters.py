"""Run the unit tests, and the behaviour tests on the fake broker, on other Pythons.

Each gets an environment of its own below build/, with exactly the locked packages. Run by
`make interpreters`; which Pythons a machine has differs, so CI does without.

    python .ci/interpreters.py                        python3.12, 3.13, 3.14(t), if on the PATH
    python .ci/interpreters.py python3.12 /opt/python3.13/bin/python3
"""

# ruff: noqa: INP001, T201, S603

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent.parent
KNOWN = ("python3.12", "python3.13", "python3.14", "python3.14t")
LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-spark.lock")
SUITES = (("tests/unit", "tests/frozen"), ("tests/behaviour", "--orderly-broker=fake"))


def main(pythons: list[str]) -> int:
    """Try each; 1 if tests failed on one, 3 if none was found."""
    found = pythons or [each for each in KNOWN if shutil.which(each)]
    if not found:
        print(f"interpreters: none of {', '.join(KNOWN)} is on the PATH", file=sys.stderr)
        return 3
    results = {python: tried(python) for python in found}
    for python, whole in results.items():
        print(f"interpreters: {python}: {'all tests passed' if whole else 'tests FAILED'}")
    return int(not all(results.values()))


def tried(python: str) -> bool:
    """Whether all suites passed on it."""
    tests = environment(python)
    jobs = os.environ.get("JOBS", "2")
    options = ("-q", "-n", jobs, "--dist", "loadfile", "-p", "no:cacheprovider")
    results = [_run(tests, "-m", "pytest", *options, *suite) for suite in SUITES]
    return all(results)


def environment(python: str) -> str:
    """Make the environment, or bring it up to date; return its Python."""
    version = subprocess.run(
        [python, "-c", "import sys; print('%d.%d%s' % (*sys.version_info[:2], sys.abiflags))"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    folder = HERE / "build" / f"python{version}"
    inside = str(folder / "bin" / "python")
    locks = [word for lock in LOCKS for word in ("-r", str(HERE / lock))]
    _uv("venv", "--allow-existing", "--python", python, str(folder))
    install = ("pip", "install", "--python", inside, "--no-build-isolation")
    _uv(*install, "--require-hashes", "-r", str(HERE / "requirements-dev.lock"))  # builds PySpark
    _uv(*install, "--require-hashes", *locks)
    _uv(*install, "--no-deps", "--editable", str(HERE))
    return inside


def _uv(*arguments: str) -> None:
    # Without pyproject.toml's constraints: they have no hashes, and made the lock files already.
    subprocess.run([sys.executable, "-m", "uv", "--quiet", "--no-config", *arguments], check=True)


def _run(*command: str) -> bool:
    return subprocess.run(command, check=False, cwd=HERE).returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
