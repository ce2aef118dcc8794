"""Resolve the two POMs with Maven and write the lists of jars that are downloaded.

Run by `make jars` after a change of the RocketMQ version; needs `mvn`. Users need the lists of the
broker and of the proxy, `make test-versions` those of other releases: one line a jar, its SHA-256,
its size in bytes, and its path in a Maven repository.
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from pathlib import Path, PurePosixPath

HERE = Path(__file__).parent
BROKER = HERE.parent / "orderly" / "testing" / "jars.txt"
PROXY = BROKER.with_name("proxy-jars.txt")
OTHERS = HERE.parent / "tests" / "versions" / "jars"
LENT = {"4.9.7": "", "5.1.4": "", "5.3.3": "", "5.4.0": "", "5.5.1": "5.5.0"}
"""Other releases -> the one that lends modules which were not published ("": itself)."""
HEADER = "# Jars of the {}: SHA-256, bytes, path. Written by `make jars`.\n"


def resolved(pom: Path, **versions: str) -> set[str]:
    """The lines of all jars that a POM needs at run time; `versions` replace its own."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        command = ["mvn", "--batch-mode", "--quiet", "--file", str(pom)]
        command += ["dependency:copy-dependencies", "-DincludeScope=runtime"]
        command += ["-Dmdep.useRepositoryLayout=true", f"-DoutputDirectory={root}"]
        command += [f"-D{name}.version={version}" for name, version in versions.items()]
        subprocess.run(command, check=True)
        return {line(root, jar) for jar in root.rglob("*.jar")}


def line(root: Path, jar: Path) -> str:
    """One line of a list."""
    content = jar.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    return f"{digest} {len(content)} {jar.relative_to(root).as_posix()}\n"


def write(target: Path, title: str, lines: set[str]) -> None:
    """Write a list, by path."""
    ordered = sorted(lines, key=lambda row: PurePosixPath(row.split()[2]))
    target.write_text(HEADER.format(title) + "".join(ordered))
    print(f"{target.name}: {len(lines)} jars")


def main() -> None:
    """Write all lists; the proxy's has only what the broker's has not."""
    broker = resolved(HERE / "pom.xml")
    write(BROKER, "embedded broker", broker)
    proxy = resolved(HERE / "offline" / "proxy-pom.xml")
    write(PROXY, "proxy, without those of the broker", proxy - broker)
    for version, lender in LENT.items():
        lines = resolved(HERE / "pom.xml", rocketmq=version, lent=lender or version)
        write(OTHERS / f"{version}.txt", f"broker {version}", lines)


if __name__ == "__main__":
    main()
