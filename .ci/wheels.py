"""Build platform wheels, whose hot modules are compiled (.ci/compiled.py), or try one.

    python .ci/wheels.py                 one for this Python, and for those of `make interpreters`
    python .ci/wheels.py --try           build one in place, install it, run tests on it
    python .ci/wheels.py --try --more    and behaviour and faults on the real broker (nightly)
    python .ci/wheels.py --install       the same without tests; prints the Python that has it

They go beside the pure wheel, which `make dist` makes. Run by `make wheels` and
`make test-compiled`; compiling takes a minute, and a C compiler with Python's headers.
"""

# ruff: noqa: INP001, T201, S603

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from dist import HERE, NotAsItShouldBe, export, write_sums

TRIAL = HERE / "build" / "trial"
CORE = ("lanes", "offset_runs", "owned_queue", "owned_queue_model", "process_queue")
# Contracts on the real broker, behaviour on the fake one; tests/compiled compares with the sources.
SUITES = (
    ("tests/compiled", *(f"tests/unit/ordering/test_{each}.py" for each in CORE)),
    ("tests/contract", "--ignore=tests/contract/test_a_proxy.py"),
    ("tests/behaviour", "--orderly-broker=fake", "-m", "not slow"),
)
MORE = (
    ("tests/behaviour", "--members=2"),
    ("tests/integration/faults", "--nightly=with"),
)


def main(arguments: list[str] | None = None) -> int:
    """Do what is asked for; 1 if that fails."""
    parser = argparse.ArgumentParser(description="Build platform wheels, or try one.")
    parser.add_argument("--output", type=Path, default=HERE / "dist", help="where they go")
    parser.add_argument("--try", dest="on_trial", action="store_true", help="run tests on one")
    parser.add_argument("--more", action="store_true", help="also those of the nightly run")
    parser.add_argument("--install", action="store_true", help="install one, and say where")
    asked, options = parser.parse_known_args(arguments)
    try:
        if asked.install or asked.on_trial:
            python = install(build(sys.executable, HERE, TRIAL))
            if asked.install:
                print(python)
                return 0
            suites = SUITES + MORE if asked.more else SUITES
            return int(not passes(python, suites, options))
        release(asked.output)
    except NotAsItShouldBe as error:
        print(f"wheels: {error}", file=sys.stderr)
        return 1
    return 0


def release(output: Path) -> None:
    """Build one for each Python here, from this checkout's files, and write the sums anew."""
    others = HERE.glob("build/python3*/bin/python")  # .ci/interpreters.py makes them
    with TemporaryDirectory() as folder:
        export(Path(folder))
        for python in (sys.executable, *map(str, sorted(others))):
            print(build(python, Path(folder), output).name)
    write_sums(output)


def build(python: str, source: Path, output: Path) -> Path:
    """Build a wheel for one Python, and return it.

    Raises:
        NotAsItShouldBe: mypy or the compiler failed.
    """
    switch = {"HATCH_BUILD_HOOK_ENABLE_CUSTOM": "1"}
    with TemporaryDirectory() as folder:
        command = (python, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder)
        done = subprocess.run(
            (*command, str(source)), check=False, capture_output=True, text=True,
            env={**os.environ, **switch},
        )  # fmt: skip
        if done.returncode:
            raise NotAsItShouldBe(f"{done.stdout[-3000:]}{done.stderr[-3000:]}")
        [wheel] = Path(folder).iterdir()
        output.mkdir(parents=True, exist_ok=True)
        return Path(wheel.replace(output / wheel.name))


def install(wheel: Path) -> str:
    """Install it into an environment of its own, and return that one's Python.

    The packages that it and its tests need are those of this environment, found after its own; so
    are the tests, which stand beside the sources of the library.
    """
    inside = TRIAL / "bin" / "python"
    _uv("venv", "--allow-existing", "--python", sys.executable, str(TRIAL))
    _uv("pip", "install", "--python", str(inside), "--no-deps", "--reinstall", str(wheel))
    paths = sysconfig.get_paths(vars={"base": str(TRIAL), "platbase": str(TRIAL)})
    after = (sysconfig.get_path("purelib"), str(HERE))
    (Path(paths["purelib"]) / "after.pth").write_text("".join(f"{path}\n" for path in after))
    return str(inside)


def passes(python: str, suites: Iterable[tuple[str, ...]], options: Iterable[str]) -> bool:
    """Whether all suites pass there."""
    # "Safe": the folder that a program runs in does not come before what is installed.
    environment = {**os.environ, "PYTHONSAFEPATH": "1", "ORDERLY_TEST_COMPILED": "1"}
    jobs = os.environ.get("JOBS", "2")
    command = (python, "-m", "pytest", "-o", "pythonpath=", "-p", "no:cacheprovider", "-q")
    parallel = ("-n", jobs, "--dist", "loadfile")
    results = [
        subprocess.run(
            (*command, *parallel, *suite, *options), check=False, cwd=HERE, env=environment
        )
        for suite in suites
    ]
    return not any(done.returncode for done in results)


def _uv(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "uv", "--quiet", "--no-config", *arguments], check=True)


if __name__ == "__main__":
    sys.exit(main())
