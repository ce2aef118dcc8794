"""Resolve docker/pom.xml with Maven and write the list that users download by.

Run by `make jars` after a change of the RocketMQ version; needs `mvn`. Users need only the list:
one line a jar, its SHA-256, its size in bytes, and its path in a Maven repository.
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
LIST = HERE.parent / "orderly" / "testing" / "jars.txt"
HEADER = "# Jars of the embedded broker: SHA-256, bytes, path. Written by `make jars`.\n"


def resolve(target: Path) -> None:
    """Copy every jar the POM needs at run time into `target`, laid out as a repository."""
    command = ["mvn", "--batch-mode", "--quiet", "--file", str(HERE / "pom.xml")]
    command += ["dependency:copy-dependencies", "-DincludeScope=runtime"]
    command += ["-Dmdep.useRepositoryLayout=true", f"-DoutputDirectory={target}"]
    subprocess.run(command, check=True)


def line(root: Path, jar: Path) -> str:
    """One line of the list."""
    content = jar.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    return f"{digest} {len(content)} {jar.relative_to(root).as_posix()}\n"


def main() -> None:
    """Write the list anew."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        resolve(root)
        jars = sorted(root.rglob("*.jar"))
        LIST.write_text(HEADER + "".join(line(root, jar) for jar in jars))
    print(f"{LIST.name}: {len(jars)} jars")


if __name__ == "__main__":
    main()
