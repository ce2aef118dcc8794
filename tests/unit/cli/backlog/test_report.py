"""`orderly backlog report`: where the file goes, when it is written, and what refuses."""

import os
import stat
import sys
import threading
from pathlib import Path

import pytest

from orderly.cli.backlog.report import write_whole
from orderly.cli.root import run
from orderly.errors import ConfigError, NameServerUnavailable
from orderly.extras import install
from orderly.monitoring.backlog.reading import Head
from orderly.monitoring.backlog.states import QueueState
from tests.support.snapshots import AT, row, snapshot
from tests.unit.cli.golden.backlog import watched, world

HEAD = Head(93, "order-8", "", AT - 60, AT - 61, 0, 10)
PAGE = "<!DOCTYPE html>"


def failed(capsys, code, said):
    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert said in err


@pytest.fixture
def target(tmp_path):
    return tmp_path / "backlog.html"


def test_it_replaces_a_file_and_leaves_nothing_else(target, capsys):
    target.write_text("old")
    with world(snapshot(row(QueueState.STALL))):
        assert run(["backlog", "report", "--out", str(target)]) == 0
    assert target.read_text("utf-8").startswith(PAGE)
    assert "STALL" in target.read_text("utf-8")
    assert list(target.parent.iterdir()) == [target]
    assert capsys.readouterr() == ("", f"wrote {target}\n")


def test_a_dash_is_stdout(capsysbinary):
    with world(snapshot(row())):
        assert run(["backlog", "report", "--out", "-"]) == 0
    out, err = capsysbinary.readouterr()
    assert out.startswith(PAGE.encode())
    assert err == b""


def test_what_could_not_be_read_is_exit_code_3_and_a_report(target):
    with world(snapshot(row(QueueState.UNKNOWN))):
        assert run(["backlog", "report", "--out", str(target)]) == 3
    assert "UNKNOWN" in target.read_text("utf-8")


def test_keys_can_be_hidden(target):
    with world(snapshot(row(QueueState.STALL, head=HEAD))):
        run(["backlog", "report", "--out", str(target)])
    assert "order-8" in target.read_text("utf-8")
    with world(snapshot(row(QueueState.STALL, head=HEAD))):
        run(["backlog", "report", "--out", str(target), "--redact-keys", "hash"])
    assert "order-8" not in target.read_text("utf-8")


def test_options_reach_the_survey_and_the_report(target):
    args = ["g*", "-t", "orders", "--top", "2", "--samples", "4", "--interval", "10s"]
    with world(snapshot(*(row(QueueState.STALL, f"g{n}") for n in range(5)))) as asked:
        assert run(["backlog", "report", "--out", str(target), *args]) == 0
    assert asked == ["g* of orders: 4 times every 10.0 s within 10.0 s"]
    assert "3 groups left out" in target.read_text("utf-8")
    assert "4 samples" in target.read_text("utf-8")


def test_samples_are_told_as_they_are_taken_and_drawn_over_time(target, capsys):
    args = ["--samples", "2", "--interval", "100ms"]
    with world(looks=watched(5, 7)):
        run(["backlog", "report", "--out", str(target), *args])
    assert capsys.readouterr().err.startswith("sample 1 of 2\nsample 2 of 2\n")
    assert "Backlog over the samples" in target.read_text("utf-8")


def test_a_directory_is_refused_before_anything_is_asked(tmp_path, capsys):
    with world() as asked:
        code = run(["backlog", "report", "--out", str(tmp_path)])
        failed(capsys, code, "is a directory")
        code = run(["backlog", "report", "--out", str(tmp_path / "none" / "x.html")])
        failed(capsys, code, "there is no directory")
    assert asked == []


@pytest.mark.parametrize("missing", ["jinja2", "matplotlib"])
def test_without_the_extra_it_says_what_to_install(monkeypatch, target, capsys, missing):
    for name in [name for name in sys.modules if name.startswith("orderly.report")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with world() as asked:
        code = run(["backlog", "report", "--out", str(target)])
    failed(capsys, code, install("monitoring"))
    assert asked == []


def test_a_report_that_cannot_be_made_leaves_the_old_one(target, capsys):
    target.write_text("old")
    with world(NameServerUnavailable("no name server")):
        failed(capsys, run(["backlog", "report", "--out", str(target)]), "no name server")
    assert target.read_text() == "old"


def test_a_reader_never_finds_half_a_file(target):
    target.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(target, "half\ud800")
    assert target.read_text() == "old"
    assert list(target.parent.iterdir()) == [target]


def test_who_reads_the_old_file_reads_it_to_its_end(target):
    target.write_text("old")
    with target.open() as reader:
        write_whole(target, "new")
        assert reader.read() == "old"
    assert target.read_text() == "new"


def test_a_device_is_written_to_and_stays_one(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()), daemon=True)
    reader.start()
    write_whole(pipe, "all")
    reader.join(60)
    assert found == ["all"]
    assert pipe.is_fifo()


def test_a_full_name_that_no_file_may_have_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match="cannot write"):
        write_whole(tmp_path / ("x" * 300), "text")


@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
def test_a_link_is_replaced_and_not_followed(tmp_path, link):
    """In a folder where others can write, it would choose which of the user's files is lost."""
    (tmp_path / "real").write_text("mine")
    getattr(tmp_path / "link", link)(tmp_path / "real")
    write_whole(tmp_path / "link", "text")
    assert (tmp_path / "real").read_text() == "mine"
    assert (tmp_path / "link").read_text() == "text"
    assert not (tmp_path / "link").is_symlink()


def test_the_systems_name_of_a_stream_is_not_replaced(tmp_path):
    with (
        (tmp_path / "file").open("w") as file,
        pytest.raises(ConfigError, match="for stdout give -"),
    ):
        write_whole(Path(f"/proc/self/fd/{file.fileno()}"), "text")
    assert (tmp_path / "file").read_text() == ""


def test_it_is_its_owners_unless_the_owner_has_opened_it(tmp_path):
    path = tmp_path / "report.html"
    write_whole(path, "text")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    write_whole(path, "text")
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
