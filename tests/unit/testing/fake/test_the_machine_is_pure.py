"""All of the fake broker but its shell can run under a clock that is made up."""

import ast
from pathlib import Path

import pytest

from orderly.testing import fake

SHELL = {"server.py", "broker.py"}
IMPURE = {"logging", "os", "random", "select", "selectors", "socket", "threading", "time"}
PURE = [p for p in sorted(Path(fake.__file__).parent.glob("*.py")) if p.name not in SHELL]


@pytest.mark.parametrize("path", PURE, ids=lambda path: path.name)
def test_it_has_no_socket_thread_clock_or_log(path):
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) else []
        assert not {name.split(".")[0] for name in names} & IMPURE
        assert not {f"orderly.testing.fake.{name[:-3]}" for name in SHELL} & set(names)
        assert "orderly.log" not in names
