"""Writes orderly/testing/jars.txt from docker/pom.xml: path, size and SHA-256 of every jar.

Needs Maven. Run it (`make jars`) after changing a version in the pom, and review the difference.
"""

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
LIST = HERE.parent / "orderly" / "testing" / "jars.txt"
HEADER = """\
# The jars of the embedded broker: path in a Maven repository, bytes, SHA-256.
# Made by docker/update_jars.py from docker/pom.xml; do not edit.
"""


def copy_jars(folder: Path) -> None:
    command = [
        "mvn", "--quiet", "--batch-mode", "--file", str(HERE / "pom.xml"),
        "dependency:copy-dependencies", "-DincludeScope=runtime",
        "-Dmdep.useRepositoryLayout=true", f"-DoutputDirectory={folder}",
    ]  # fmt: skip
    subprocess.run(command, check=True)


def line_of(jar: Path, folder: Path) -> str:
    content = jar.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    return f"{jar.relative_to(folder).as_posix()} {len(content)} {digest}\n"


def main() -> int:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        copy_jars(folder)
        lines = sorted(line_of(jar, folder) for jar in folder.rglob("*.jar"))
    LIST.write_text(HEADER + "".join(lines))
    print(f"{LIST}: {len(lines)} jars")
    return 0


if __name__ == "__main__":
    sys.exit(main())
