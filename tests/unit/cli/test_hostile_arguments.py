"""Whatever is typed: one line that says what is wrong, an exit code of the table, no traceback.

Every option and argument of every command is given values that none of them means. Nothing can be
reached: name servers are asked at a closed port, and what would start or serve is replaced.
"""

import io
import re
import signal
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import click
import pytest

from orderly.cli.commands import CODES
from orderly.cli.options import Duration
from orderly.cli.root import run
from orderly.errors import ConfigError
from tests.support.command_tree import arguments, leaves, options

LEAVES = leaves()
TEXTS = [
    "", " ", "-", "--", "..", "/", "*", "[", "(", "{", "%s", "ä b", "a:b:c", "a=b", "=", "\udcff",
    "\x1b[31mred", "a\nb", "x" * 3000, '{"a":', "2026-99-99", "99999999999999999999", "group:",
    "/no/such/dir/file", "b:99999999999999999999", "b:²",
]  # fmt: skip
NUMBERS = ["", "-1", "0", "nan", "inf", "1e999", "9" * 40, "٣", "²", "1_0", "0x1", "5 m", "1d1d"]
NAME_SERVERS = [
    "", ";", ":", "a", "127.0.0.1:", "127.0.0.1:99999", ".:1", "a..b:1", "x" * 70 + ":1", "[::1:1",
    "\udcff:1", "127.0.0.1:1;;127.0.0.1:1", "h:²", "h:" + "1" * 5000,
]  # fmt: skip
VALID = {
    "group": "shipping", "topic": "orders", "name": "orders", "into": "orders", "key": "k",
    "shell": "bash", "handler": "os:getpid", "queues": "4", "which": "broker.log", "body": "x",
    "consumers": "os:getpid", "output": "out.html", "out": "out",
}  # fmt: skip


def refuse(*_args, **_settings):
    raise ConfigError("replaced by the test")


@contextmanager
def no_session(*_args):
    refuse()
    yield


@pytest.fixture(autouse=True)
def nothing_to_reach(monkeypatch, tmp_path):
    """A closed port, an empty folder, and nothing that starts, serves or waits."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ORDERLY_NAMESRV", "127.0.0.1:1")
    (tmp_path / "config.toml").write_text("")  # no device: whoever runs this may be root
    monkeypatch.setenv("ORDERLY_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("ORDERLY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(signal, "pthread_sigmask", lambda *_: None)
    (tmp_path / "there").mkdir()
    for name in (
        "orderly.cli.demo.story.run_demo",
        "orderly.testing.java.find_java",
        "orderly.testing.FakeBroker",
        "orderly.cli.exporter._serve",
        "orderly.spark.bundling.write_bundle",
    ):
        monkeypatch.setattr(name, refuse)
    monkeypatch.setattr("orderly.cli.spark.session", no_session)


def base(command, without=None):
    """What a command needs, but for one parameter."""
    words = []
    for param in command.params:
        if param is without or not param.required:
            continue
        value = VALID.get(param.name, "there")
        words += [value] if isinstance(param, click.Argument) else [param.opts[-1], value]
    return words


def hostile(param):
    """What to give a parameter; a choice is click's own matter, and tried once in all."""
    if isinstance(param, click.Option) and (param.is_flag or param.count):
        return []
    if isinstance(param.type, click.Choice):
        return ["", "no such"]
    numeric = isinstance(
        param.type, Duration | click.types.IntParamType | click.types.FloatParamType
    )
    return NUMBERS if numeric else TEXTS


def lines(words, command):
    """The hostile command lines of a command."""
    for param in [*arguments(command), *options(command)]:
        for value in hostile(param):
            if isinstance(param, click.Argument):
                yield [*words, *base(command, param), "--", value]
            else:
                yield [*words, *base(command, param), f"{param.opts[-1]}={value}"]


def first_of_each():
    """The command lines by command; an option that several share is tried with the first."""
    seen, found = set(), {}
    for words, command in LEAVES.items():
        mine = []
        for line in lines(words.split(), command):
            option = line[-1].partition("=")[0]
            about = next((p.help for p in options(command) if option in p.opts), words)
            if (line[-1], about) not in seen:
                seen.add((line[-1], about))
                mine.append(line)
        found[words] = mine
    return found


CASES = first_of_each()


@pytest.fixture
def call(monkeypatch, capsys):
    """Run a command line: (exit code, stdout, stderr)."""

    def call(line):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(
            buffer=io.BytesIO(b""), isatty=lambda: False))  # fmt: skip
        code = run(line)
        return (code, *capsys.readouterr())

    return call


@pytest.mark.parametrize("words", CASES)
def test_no_traceback_and_one_line(words, call):
    wrong = []
    for line in CASES[words]:
        code, out, err = call(line)
        if why := what_is_wrong(code, out, err, CODES[words]):
            wrong.append((line, why, err[-300:]))
    assert wrong == []


QUICK = (
    "send", "tail", "topic create", "topic list", "topic show", "offsets show",
    "offsets reset", "parked list", "parked show", "parked export", "parked drop",
    "parked keepalive", "dlq list", "dlq replay", "backlog list", "backlog check",
    "backlog describe", "backlog explain", "locks", "doctor", "group list", "group delete",
    "topic delete",
)  # fmt: skip
"""What ends by itself soon on a broker that answers."""


@pytest.fixture
def fake(orderly_fake, monkeypatch):
    orderly_fake.create_topic("orders", 4)
    monkeypatch.setenv("ORDERLY_NAMESRV", orderly_fake.namesrv)


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize("words", QUICK)
def test_no_traceback_and_one_line_from_a_broker_that_answers(words, call):
    wrong = []
    for line in CASES[words]:
        code, out, err = call(line)
        if why := what_is_wrong(code, out, err, CODES[words]):
            wrong.append((line, why, err[-300:]))
    assert wrong == []


VOICE = re.compile(r"error: (?![A-Z][a-z]).*[^.\s]")


def what_is_wrong(code, out, err, codes):
    """Why an answer is not as it should be; "" if it is."""
    if code not in codes:
        return f"exit code {code}"
    if "this is a bug" in err or "Traceback" in out + err:
        return "a traceback"
    if not all(line.isprintable() for line in err.splitlines()):
        return "it acts on the terminal"
    errors = [line for line in err.splitlines() if line.startswith("error: ")]
    if len(errors) > 1 or not all(map(VOICE.fullmatch, errors)):
        return "not in our voice"
    return "" if errors or out or code != 3 else "exit 3 without a word"


@pytest.mark.parametrize("value", NAME_SERVERS)
def test_what_is_no_name_server(value, call):
    code, out, err = call(["topic", "list", f"--namesrv={value}"])
    assert what_is_wrong(code, out, err, CODES["topic list"]) == ""


@pytest.mark.parametrize("option", ["--namespace", "--context", "--color"])
@pytest.mark.parametrize("value", [text for text in TEXTS if text], ids=repr)
def test_what_every_command_takes(option, value, call):
    code, out, err = call(["topic", "list", f"{option}={value}"])
    assert code == 3
    assert what_is_wrong(code, out, err, CODES["topic list"]) == ""


@pytest.mark.parametrize(
    "text",
    [
        "namesrv = 7",
        "namesrv = [",
        'context = "gone"',
        "[backlog.check]\ncrit = 5",
        "[backlog.check]\ncrit = [1, 2]",
        "[backlog.ls]\ntop = 1.5",
        "[backlog]\nls = 5",
        "[topic.list]\nno_such = 1",
        '[topic.list]\noutput = "no such"',
        '[topic]\n"a\\u001b[31m" = 1',
        "tls = 5\nnamesrv = 'a:1'",
        "[contexts]\nprod = 5",
        "contexts = 5",
        "request_timeout = 'soon'",
        "request_timeout = nan",
        "\x00",
        "\udcff",
    ],
    ids=repr,
)
@pytest.mark.parametrize(
    "line", [["topic", "list"], ["backlog", "check", "g"], ["backlog"], ["context", "show"]],
    ids=" ".join,
)  # fmt: skip
def test_a_settings_file_that_says_nonsense(text, line, call, monkeypatch, tmp_path):
    path = tmp_path / "config.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    monkeypatch.setenv("ORDERLY_CONFIG", str(path))
    code, out, err = call(line)
    assert code in (0, 3)
    assert what_is_wrong(code, out, err, {0: "", 3: ""}) == ""


def test_it_would_be_noticed():
    """Each way of being wrong is seen."""
    codes = {0: "", 3: ""}
    for code, out, err in (
        (1, "", "error: x"),
        (3, "", "error: unexpected KeyError: 'x' (this is a bug)"),
        (3, "", "Traceback (most recent call last):"),
        (3, "", "error: \x1b[31m"),
        (3, "", "error: No such thing"),
        (3, "", "error: a sentence."),
        (3, "", "error: one\nerror: two"),
        (3, "", ""),
    ):
        assert what_is_wrong(code, out, err, codes), err
    assert what_is_wrong(3, "", "error: nothing listens at 127.0.0.1:1", codes) == ""
