"""The options of every command, above all: which names they make of those the user gives."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from orderly.cli.commands import CODES
from orderly.cli.root import run
from orderly.cli.settings import CommonOptions, parse_settings, read_settings, settings_path
from orderly.config import ConsumerConfig, variables
from orderly.config.fields import variables_of_fields
from orderly.config.settings_file import secret
from orderly.errors import ConfigError
from tests.support.command_tree import leaves, options
from tests.support.snapshots import row, snapshot
from tests.unit.cli.golden.backlog import world


@pytest.fixture
def environment(monkeypatch):
    monkeypatch.setenv("ORDERLY_NAMESRV", "host:1")
    monkeypatch.setenv("ORDERLY_NAMESPACE", "shop")


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(("option", "meant"), [(None, "shop"), ("bank", "bank"), ("", "")])
def test_the_namespace_is_the_option_else_the_environments(option, meant):
    settings = CommonOptions(namespace=option)
    assert settings.client_config().namespace == meant
    prefix = f"{meant}%" if meant else ""
    assert settings.topic("orders") == f"{prefix}orders"
    assert settings.group("shipping") == f"{prefix}shipping"
    assert settings.topic("%RETRY%shipping") == f"%RETRY%{prefix}shipping"


def test_a_full_name_and_none_stay_what_they_are():
    settings = CommonOptions(namespace="shop")
    assert settings.topic("shop%orders") == "shop%orders"
    assert settings.topic(None) is settings.group(None) is None


def test_a_brokers_limit_holds_for_the_name_with_its_namespace():
    settings = CommonOptions(namespace="shop")
    assert settings.topic("t" * 122)
    with pytest.raises(ConfigError, match="127"):
        settings.topic("t" * 123)
    with pytest.raises(ConfigError, match="120"):
        settings.group("g" * 116)


def test_own_are_the_names_of_the_namespace():
    names = ["shop%orders", "%RETRY%shop%shipping", "bank%orders", "orders", "shopping"]
    assert CommonOptions(namespace="shop").own(names) == ["shop%orders", "%RETRY%shop%shipping"]
    assert CommonOptions(namespace="").own(names) == names


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("args", [["topic", "list"], ["topic", "show", "orders"], ["backlog"]])
def test_what_is_no_namespace_is_refused(args, capsys):
    assert run([*args, "--namespace", "a%b"]) == 3
    assert "namespace 'a%b' may only contain" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "listed"),
    [([], ["shop%orders"]), (["--namespace", ""], ["invoices", "shop%orders"])],
)
def test_an_empty_option_turns_the_environments_namespace_off(
    orderly_fake, monkeypatch, capsys, option, listed
):
    orderly_fake.create_topic("shop%orders", 1)
    orderly_fake.create_topic("invoices", 1)
    monkeypatch.setenv("ORDERLY_NAMESRV", orderly_fake.namesrv)
    monkeypatch.setenv("ORDERLY_NAMESPACE", "shop")
    assert run(["topic", "list", "-o", "csv", *option]) == 0
    found = capsys.readouterr().out.split()[1:]
    assert found == listed


FILE = """
context = "staging"
namespace = "all"
[backlog.check]
crit = "7"
warn-age = "5m"
[contexts.staging]
namesrv = "stage:1"
[contexts.prod]
namesrv = "prod:1"
namespace = "shop"
connect_timeout = 1.5
[contexts.prod.backlog.check]
crit = "9"
"""


@pytest.fixture
def write(monkeypatch, tmp_path):
    path = tmp_path / "config.toml"
    monkeypatch.setenv("ORDERLY_CONFIG", str(path))
    for name in ("ORDERLY_NAMESRV", "ORDERLY_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)

    def to(text):
        path.write_text(text)
        return path

    return to


@pytest.fixture
def file(write):
    return write(FILE)


def config(**given):
    return CommonOptions(**given).client_config()


@pytest.mark.usefixtures("file")
def test_the_files_own_context_holds_unless_another_is_named(monkeypatch):
    assert (config().namesrv, config().namespace) == ("stage:1", "all")
    monkeypatch.setenv("ORDERLY_CONTEXT", "prod")
    assert (config().namesrv, config().namespace) == ("prod:1", "shop")
    assert config(context="staging").namesrv == "stage:1"
    assert config().connect_timeout == 1.5


@pytest.mark.usefixtures("file")
def test_an_option_wins_over_the_environment_and_that_over_the_file(monkeypatch):
    monkeypatch.setenv("NAMESRV_ADDR", "java:1")
    assert config().namesrv == "stage:1"
    monkeypatch.setenv("ORDERLY_NAMESRV", "env:1")
    monkeypatch.setenv("ORDERLY_CONNECT_TIMEOUT", "2.5")
    monkeypatch.setenv("ORDERLY_CONTEXT", "prod")
    assert (config().namesrv, config().connect_timeout) == ("env:1", 2.5)
    assert config(namesrv="option:1").namesrv == "option:1"


@pytest.mark.usefixtures("file")
def test_a_context_named_by_hand_wins_over_the_environment(monkeypatch):
    monkeypatch.setenv("ORDERLY_NAMESRV", "env:1")
    assert config(context="prod").namesrv == "prod:1"
    assert config(context="prod", namesrv="option:1").namesrv == "option:1"


def test_javas_variable_is_honoured_last(monkeypatch, write):
    write("")
    monkeypatch.setenv("NAMESRV_ADDR", "java:1")
    assert config().namesrv == "java:1"


@pytest.mark.parametrize(
    ("args", "env", "crit"),
    [
        ([], None, "7"),
        (["--context", "prod"], None, "9"),
        (["--context", "prod"], "8", "8"),
        (["--crit", "6"], "8", "6"),
    ],
)
@pytest.mark.usefixtures("file")
def test_options_of_commands_come_from_the_same_places(monkeypatch, capsys, args, env, crit):
    if env:
        monkeypatch.setenv("ORDERLY_BACKLOG_CHECK_CRIT", env)
    with world(snapshot(row())):
        assert run(["backlog", "check", "*", "-o", "json", *args]) == 0
    figures = {f["measure"]: f for f in json.loads(capsys.readouterr().out)["figures"]}
    assert figures["backlog"]["crit"] == crit
    assert figures["head_age"]["warn"] == "5m"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("context = ", "is not TOML"),
        ("nonsense = 1", "nonsense is not a setting"),
        ("namesrv = 'a:1'\n[contexts]\nprod = 1", "contexts.prod must be a table"),
        ("contexts = 1", "must be tables"),
        ("context = 1", "must be a name"),
        ("[contexts.prod]\nnamesvr = 'a:1'", "contexts.prod.namesvr is not a setting"),
        ("[contexts.prod.namesrv]\na = 1", "must be a value, not a table"),
        ("backlog = 1", "backlog must be a table"),
        ("[backlog.chek]\ncrit = '1'", "`orderly backlog chek` does not exist (did you mean"),
        ("[contexts.prod.backlog.chek]", "[contexts.prod.backlog.chek] is for no command"),
        ("[backlog.check.crit]", "[backlog.check.crit] is for no command"),
        ("[bakclog.check]\ncrit = '1'", "bakclog is not a setting (did you mean backlog?)"),
        ("[contex.prod]\nnamesrv = 'a:1'", "contex is not a setting (did you mean contexts?)"),
        ("[skew.t]", "[skew.t] is for no command"),
        ("[broker]\nport = 1", "broker is not a setting"),
        (
            "namesrv = 'a:1'\n[backlog.check]\nwran = '1'",
            "has no option --wran (did you mean --warn?)",
        ),
        ("context = 'gone'\n[contexts.prod]", "no context 'gone'"),
        ("color = 'green'\nnamesrv = 'a:1'", "color must be one of"),
        ("connect_timeout = 'long'\nnamesrv = 'a:1'", "config.toml: connect_timeout must be"),
        ("namesrv = 7", "config.toml: namesrv must be a str"),
        ("[contexts.prod]\ntls = 'yes'", "contexts.prod.tls must be True or False"),
        ("namesrv = 'a:1'\n[backlog.check]\ncrit = 'many'", "'many' is not a range"),
    ],
)
def test_every_mistake_is_one_line_and_exit_3(write, capsys, text, said):
    write(text)
    command = ["context", "show", "-o", "table"] if "color" in text else None
    assert run(command or ["backlog", "check", "g"]) == 3
    out, err = capsys.readouterr()
    assert out == ("" if command else f"ORDERLY UNKNOWN - {err.removeprefix('error: ')}")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert said in err


def test_a_file_that_was_named_must_exist(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("ORDERLY_CONFIG", str(tmp_path / "gone.toml"))
    assert run(["context", "list"]) == 3
    assert "does not exist" in capsys.readouterr().err


def test_a_file_that_cannot_be_read_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("ORDERLY_CONFIG", str(tmp_path))
    with pytest.raises(ConfigError, match="cannot be read"):
        read_settings()


def test_without_a_file_there_are_no_settings(tmp_path):
    env = {}
    assert settings_path(env).parts[-2:] == ("orderly", "config.toml")
    assert str(settings_path(env)).startswith(click.get_app_dir("orderly"))


def test_values_are_never_part_of_an_error(tmp_path):
    with pytest.raises(ConfigError) as raised:
        parse_settings("[contexts.prod]\nsecret_kye = 'hunter2'", tmp_path)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("name", ["secret_key", "access_key", "password", "auth_token"])
def test_what_is_secret_is_known_by_its_name(name):
    assert secret(name)
    assert not secret("namesrv")


def test_each_command_that_takes_defaults_may_have_a_table(tmp_path):
    for words in CODES:
        if words.partition(" ")[0] in ("broker", "context", "completion"):
            continue
        for where in ("", "contexts.prod."):
            parse_settings(f"[{where}{words.replace(' ', '.')}]\nanything = 1", tmp_path)


# --- variables that nobody reads ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("ORDERLY_NAMESERV", "did you mean ORDERLY_NAMESRV?"),
        ("ORDERLY_BACKLOG_CHEK_CRIT", "did you mean ORDERLY_BACKLOG_CHECK_CRIT?"),
        ("ORDERLY_BACKLOG_CHECK_CRTI", "did you mean ORDERLY_BACKLOG_CHECK_CRIT?"),
        ("ORDERLY_CONCURENCY", "did you mean ORDERLY_CONCURRENCY?"),
        ("ORDERLY_ZZZZ", "nothing reads it"),
        ("ORDERLY_BACKLOG_CHECK_NAMESRV", "nothing reads it"),  # it has no variable of its own
        ("ORDERLY_PARKING", "nothing reads it"),  # a field, but none that a text can set
    ],
)
def test_a_variable_that_nobody_reads_is_warned_of(monkeypatch, capsys, variable, hint):
    variables._warn.cache_clear()
    monkeypatch.setenv(variable, "7")
    with world(snapshot(row())):
        assert run(["backlog", "check", "*"]) == 0
    err = capsys.readouterr().err
    assert variable in err
    assert hint in err


def test_no_other_variable_is(monkeypatch, capsys):
    variables._warn.cache_clear()
    names = ("CONCURRENCY", "SEND_TIMEOUT", "CACHE", "SKEW_TOP", "BACKLOG_CHECK_CRIT", "TEST_X",
             "EXPORTER_PORT", "EXPORTER_SERVICE_HOST", "EXPORTER_PORT_9118_TCP_ADDR")  # fmt: skip
    for name in names:
        monkeypatch.setenv(f"ORDERLY_{name}", "7")
    with world(snapshot(row())):
        run(["backlog", "check", "*"])
    assert "ORDERLY_" not in capsys.readouterr().err


def test_a_program_does_not_take_the_variables_of_commands_for_misspelt_ones(caplog):
    variables._warn.cache_clear()
    env = {
        f"ORDERLY_{words}_{param.name}".upper().replace(" ", "_"): "7"
        for words, command in leaves().items()
        for param in options(command)
        if param.allow_from_autoenv
    }
    fields = variables_of_fields()
    ConsumerConfig.from_env({name: text for name, text in env.items() if name not in fields})
    assert len(env) > 50
    assert caplog.records == []


def test_the_page_lists_each_variable_that_is_no_field():
    page = Path("docs/reference/configuration.md").read_text()
    assert [name for name in variables.OTHERS if f"`{name}`" not in page] == []
