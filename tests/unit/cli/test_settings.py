"""The options of every command, above all: which names they make of those the user gives."""

import pytest

from orderly.cli.root import run
from orderly.cli.settings import Settings
from orderly.errors import ConfigError


@pytest.fixture
def environment(monkeypatch):
    monkeypatch.setenv("ORDERLY_NAMESRV", "host:1")
    monkeypatch.setenv("ORDERLY_NAMESPACE", "shop")


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(("option", "meant"), [(None, "shop"), ("bank", "bank"), ("", "")])
def test_the_namespace_is_the_option_else_the_environments(option, meant):
    settings = Settings(namespace=option)
    assert settings.client_config().namespace == meant
    prefix = f"{meant}%" if meant else ""
    assert settings.topic("orders") == f"{prefix}orders"
    assert settings.group("shipping") == f"{prefix}shipping"
    assert settings.topic("%RETRY%shipping") == f"%RETRY%{prefix}shipping"


def test_a_full_name_and_none_stay_what_they_are():
    settings = Settings(namespace="shop")
    assert settings.topic("shop%orders") == "shop%orders"
    assert settings.topic(None) is settings.group(None) is None


def test_a_brokers_limit_holds_for_the_name_with_its_namespace():
    settings = Settings(namespace="shop")
    assert settings.topic("t" * 122)
    with pytest.raises(ConfigError, match="127"):
        settings.topic("t" * 123)
    with pytest.raises(ConfigError, match="120"):
        settings.group("g" * 116)


def test_own_are_the_names_of_the_namespace():
    names = ["shop%orders", "%RETRY%shop%shipping", "bank%orders", "orders", "shopping"]
    assert Settings(namespace="shop").own(names) == ["shop%orders", "%RETRY%shop%shipping"]
    assert Settings(namespace="").own(names) == names


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("args", [["topic", "list"], ["topic", "show", "orders"], ["backlog"]])
def test_what_is_no_namespace_is_refused(args, capsys):
    assert run([*args, "--namespace", "a%b"]) == 3
    assert "namespace 'a%b' may only contain" in capsys.readouterr().err


@pytest.mark.usefixtures("environment")
def test_an_empty_option_turns_the_environments_namespace_off(monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(Settings, "client", lambda settings: asked.append(settings.client_config()))
    for option in ([], ["--namespace", ""]):
        run(["topic", "list", *option])
    assert [config.namespace for config in asked] == ["shop", ""]
