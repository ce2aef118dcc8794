"""Imports go one way, and pure packages stay pure: read from the source, so nothing is imported."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2] / "orderly"

# A part may import from parts with a lower rank, and from itself.
RANK = {
    "at_exit": 0,
    "awake": 0,
    "compiled": 0,
    "errors": 0,
    "extras": 0,
    "foreign_text": 0,
    "namespace": 0,
    "sentences": 0,
    "signals": 0,
    "clock": 1,
    "interruptions": 1,
    "model": 1,
    "redaction": 1,
    "config": 3,
    "log": 2,
    "durable_file": 2,
    "protocol": 3,
    "message": 4,
    "ordering": 5,
    "selectors": 5,
    "listening": 6,
    "once": 6,
    "small_http": 6,
    "client": 7,
    "producer": 8,
    "processes": 8,
    "consumer": 9,
    "native": 9,
    "bench": 10,
    "monitoring": 10,
    "telemetry": 10,
    "testing": 10,
    "report": 11,
    "spark": 12,
    "cli": 13,
}
PURE = {
    "awake", "errors", "foreign_text", "namespace", "sentences", "model", "message", "protocol",
    "ordering", "selectors",
}  # fmt: skip
IMPURE = {
    "asyncio", "concurrent", "logging", "multiprocessing", "os", "pathlib",
    "queue", "random", "secrets", "select", "socket", "ssl", "structlog", "subprocess", "sys",
    "tempfile", "tenacity", "threading", "time",
}  # fmt: skip

FILES = sorted(ROOT.rglob("*.py"))
FOLDERS = sorted({str(p.parent.relative_to(ROOT)) for p in FILES} - {"."})
ROOMS = [folder for folder in FOLDERS if folder.count("/") <= 1]
DESIGN = (ROOT.parent / "DESIGN.md").read_text()
SHOWN = set(re.findall(r"`[\w/]+/`", DESIGN))  # folders


def part_of(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


def violations(path):
    """What a file imports that it must not, in words."""
    part, where = part_of(path), path.relative_to(ROOT)
    for module in imported(path):
        root, *rest = module.split(".")
        if not root:
            yield f"{where}: relative import"
        elif root != "orderly":
            if part in PURE and root in IMPURE:
                yield f"{where}: {part} is pure and imports {module}"
        elif not rest:
            yield f"{where}: imports the package itself, not one of its parts"
        elif rest[0] != part and RANK[rest[0]] >= RANK[part]:
            yield f"{where}: {part} imports {rest[0]}"


def test_imports_point_to_lower_layers_and_pure_parts_have_no_socket_thread_clock_or_log():
    files = [path for path in FILES if part_of(path) != "__init__"]
    wrong = [each for path in files for each in violations(path)]
    assert not wrong, "\n".join(wrong)


def test_every_part_has_a_rank():
    assert {part_of(p) for p in FILES} - {"__init__"} == set(RANK)


def test_the_design_shows_these_layers():
    (layers,) = re.findall(r"## 3\. The tree\n\n```\w*\n(.*?)```", DESIGN, re.DOTALL)
    shown = [set(re.findall(r"\w+", layer)) for layer in layers.split("<-")]
    ranks = sorted(set(RANK.values()))
    assert shown == [{part for part, rank in RANK.items() if rank == at} for at in ranks]


def test_the_design_explains_every_room():
    names = {room: (f"`{room}/`", f"`{room.rpartition('/')[2]}/`") for room in ROOMS}
    assert [room for room, (path, last) in names.items() if not {path, last} & SHOWN] == []
