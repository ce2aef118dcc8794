"""Imports go one way, and pure packages stay pure: read from the source, so nothing is imported."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "orderly"

# A part may import from parts with a lower rank, and from itself.
RANK = {
    "errors": 0,
    "foreign_text": 0,
    "namespace": 0,
    "signals": 0,
    "model": 1,
    "redaction": 1,
    "config": 3,
    "log": 2,
    "durable_file": 2,
    "file_lock": 2,
    "protocol": 3,
    "ordering": 4,
    "selectors": 4,
    "listening": 5,
    "once": 5,
    "remoting": 5,
    "client": 6,
    "producer": 7,
    "processes": 7,
    "consumer": 8,
    "native": 8,
    "bench": 9,
    "monitoring": 9,
    "telemetry": 9,
    "testing": 9,
    "spark": 10,
    "cli": 11,
}
PURE = {"errors", "foreign_text", "namespace", "model", "protocol", "ordering", "selectors"}
IMPURE = {
    "asyncio", "concurrent", "logging", "multiprocessing", "os", "pathlib",
    "queue", "random", "secrets", "select", "socket", "ssl", "structlog", "subprocess", "sys",
    "tempfile", "tenacity", "threading", "time",
}  # fmt: skip

FILES = sorted(ROOT.rglob("*.py"))
FOLDERS = sorted({str(p.parent.relative_to(ROOT)) for p in FILES} - {"."})
ROOMS = [folder for folder in FOLDERS if folder.count("/") <= 1]
DESIGN = (ROOT.parent / "DESIGN.md").read_text()


def part_of(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_to_lower_layers(path):
    part = part_of(path)
    if part == "__init__":
        return
    for module in imported(path):
        root, *rest = module.split(".")
        if root != "orderly":
            continue
        assert rest, f"{path}: imports the package itself, not one of its parts"
        other = rest[0]
        assert other == part or RANK[other] < RANK[part], f"{path}: {part} imports {other}"


@pytest.mark.parametrize(
    "path", [p for p in FILES if part_of(p) in PURE], ids=lambda p: str(p.relative_to(ROOT))
)
def test_pure_parts_have_no_socket_thread_clock_or_log(path):
    roots = {module.split(".")[0] for module in imported(path)}
    assert not roots & IMPURE


def test_every_part_has_a_rank():
    assert {part_of(p) for p in FILES} - {"__init__"} == set(RANK)


def test_the_design_shows_these_layers():
    (layers,) = re.findall(r"## 2\. Layers\n\n```\w*\n(.*?)```", DESIGN, re.DOTALL)
    shown = [set(re.findall(r"\w+", layer)) for layer in layers.split("<-")]
    ranks = sorted(set(RANK.values()))
    assert shown == [{part for part, rank in RANK.items() if rank == at} for at in ranks]


@pytest.mark.parametrize("room", ROOMS)
def test_the_design_explains_every_room(room):
    path, last = f"`{room}/`", f"`{room.rpartition('/')[2]}/`"
    assert path in DESIGN or last in DESIGN
