"""Runs the tests that use programs of the machine where there are none: `make test-bare`.

A PATH of links to all programs of this machine but those is the machine that the README speaks of:
it has Python and make. The tests that need more must be left out, with the package that they need,
and the others of their files must pass. `make nightly` runs both of the README's commands whole, in
a container that has nothing else (stage "bare").

    python .ci/bare.py [options of pytest]
"""

# ruff: noqa: INP001, S603

from __future__ import annotations

import fnmatch
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HIDDEN = (
    "redis*", "postgres", "psql", "pg_*", "initdb", "prometheus", "promtool", "chrom*", "google-*",
    "docker*", "containerd*", "java", "javac", "cc", "c89*", "c99*", "c++", "gcc*", "g++*",
    "clang*", "*-linux-gnu-g*", "openssl", "go", "gofmt", "git",
)  # fmt: skip
UNSET = ("CI", "JAVA_HOME", "ORDERLY_REQUIRE_BROKER", "ORDERLY_LIBROCKETMQ", "GOROOT")
USES = re.compile(
    r"mark\.needs\(|from tests\.(?:support\.(?:optional|certificates|java)|native\.worlds) import"
    r"|from tests\.support\.programs import .*(?:browser|postgresql|redis_server|promtool)"
)


def main(options: list[str]) -> int:
    """Run them; returns pytest's exit code."""
    # The folder of the native tests, not its files: a file that is named is never left out.
    files = sorted(
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("test_*.py")
        if path.parent.name != "native" and USES.search(path.read_text(encoding="utf-8"))
    )
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "tests/native", *files, *options]
        return subprocess.run(command, cwd=ROOT, env=bare(Path(folder)), check=False).returncode


def bare(folder: Path) -> dict[str, str]:
    """Environment of such a machine; its programs are links in `folder`."""
    for place in os.get_exec_path():
        for program in sorted(Path(place).glob("*")):
            link = folder / program.name
            hidden = any(fnmatch.fnmatch(program.name, name) for name in HIDDEN)
            if not hidden and not link.is_symlink():  # the first on the PATH counts
                link.symlink_to(program)
    kept = {name: value for name, value in os.environ.items() if name not in UNSET}
    more = {"DOCKER_HOST": "unix:///no/engine/here", "ORDERLY_TEST_BARE": "1"}
    return kept | more | {"PATH": str(folder)}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
