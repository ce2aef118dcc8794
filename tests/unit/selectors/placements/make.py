"""Makes tests/unit/selectors/placements.json: where code that is not ours places keys.

    python -m tests.unit.selectors.placements.make

Needs javac, g++ and go; the Go module comes from the network. Java's hash and Guava's run from the
broker's own jars, Go's selector from its client, C++'s hash from g++.
"""

from __future__ import annotations

import json
import random
import subprocess
import tempfile
from pathlib import Path

from tests.support.java import compile_java, run_java

HERE = Path(__file__).parent
TARGET = HERE.with_suffix(".json")
GO_CLIENT = "github.com/apache/rocketmq-client-go/v2@v2.1.2"
COUNTS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 31, 32, 64, 100, 1000)
SEED = 20261122

FIXED = [
    "a",
    "1001",
    "-7",
    "order-1001",
    "订单-42",
    "é",
    "\U0001f600",
    "\U0001f600\U0001f468‍\U0001f469‍\U0001f467",
    "\0",
    "a\0b",
    "\U0010ffff",
    "polygenelubricants",  # its Java hash is -2^31, whose absolute value overflows
    "cpiqdjs",  # with these two hashes Guava's int overflows at the first draw
    "dskxips",
    "x" * 1000,
]


def keys() -> list[str]:
    """Odd ones, one of each length that word-wise hashing treats in its own way, random ones."""
    pick = random.Random(SEED)
    ranges = [(0x20, 0x7E), (0xA0, 0x2FFF), (0x4E00, 0x9FFF), (0x1F300, 0x10FFFF)]
    lengths = ["abcdefghijklmnopqrstuvwxyz0123456789"[:length] for length in range(2, 34)]
    drawn = [
        "".join(chr(pick.randint(*pick.choice(ranges))) for _ in range(pick.randint(1, 20)))
        for _ in range(60)
    ]
    return [*FIXED, *lengths, *(f"order-{number}" for number in range(20)), *drawn]


def main() -> None:
    """Ask all three, and write down what they say."""
    every = keys()
    given = "\n".join([" ".join(map(str, COUNTS)), *(key.encode().hex() for key in every), ""])
    with tempfile.TemporaryDirectory() as folder:
        answers = [ask(Path(folder), given) for ask in (_java, _cpp, _go)]
    rows = [_row(*them) for them in zip(every, *answers, strict=True)]
    lines = ",\n".join(json.dumps(row) for row in rows)
    TARGET.write_text(f'{{"queues": {list(COUNTS)}, "keys": [\n{lines}\n]}}\n')


def _row(key: str, java: list[int], cpp: list[int], go: list[int]) -> dict[str, object]:
    end = 1 + len(COUNTS)
    return {
        "key": key,
        "hashes": {"hash_mod": java[0], "cpp_hash_mod": cpp[0], "go_hash_mod": go[0]},
        "hash_mod": java[1:end],
        "proxy_hash": java[end:],
        "cpp_hash_mod": cpp[1:],
        "go_hash_mod": go[1:],
    }


def _java(folder: Path, given: str) -> list[list[int]]:
    compile_java(HERE / "Placements.java", folder)
    return _read(run_java(folder, "Placements", given))


def _cpp(folder: Path, given: str) -> list[list[int]]:
    program = folder / "placements"
    _run(["g++", "-std=c++17", "-O1", "-o", str(program), str(HERE / "placements.cpp")], folder)
    return _read(_run([str(program)], folder, given))


def _go(folder: Path, given: str) -> list[list[int]]:
    (folder / "main.go").write_bytes((HERE / "placements.go").read_bytes())
    _run(["go", "mod", "init", "placements"], folder)
    _run(["go", "get", GO_CLIENT], folder)
    return _read(_run(["go", "run", "."], folder, given))


def _run(command: list[str], folder: Path, given: str = "") -> str:
    return subprocess.run(
        command, cwd=folder, input=given, stdout=subprocess.PIPE, text=True, check=True, timeout=600
    ).stdout


def _read(text: str) -> list[list[int]]:
    return [[int(word) for word in line.split()] for line in text.splitlines()]


if __name__ == "__main__":
    main()
