"""Settings outside of the command line: the same file, the same order, secrets kept."""

import os

import pytest

from orderly.config import ClientConfig
from orderly.config import settings_file as module
from orderly.errors import ConfigError

FILE = """
context = "staging"
namespace = "all"
[backlog.check]
crit = "7"
[some.command]
that = "is not known here"
[contexts.staging]
namesrv = "stage:1"
[contexts.prod]
namesrv = "prod:1"
access_key = "app"
secret_key = "hunter2"
tls = true
connect_timeout = 1.5
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "orderly.toml"
    path.write_text(FILE)
    path.chmod(0o600)
    return path


def test_each_setting_comes_from_the_first_place_that_has_it(file):
    read = ClientConfig.from_settings
    assert read(file, env={}).namesrv == "stage:1"
    assert read(file, env={"ORDERLY_NAMESRV": "env:1"}).namesrv == "env:1"
    assert read(file, env={"ORDERLY_CONTEXT": "prod"}).namesrv == "prod:1"
    assert read(file, "prod", env={"ORDERLY_NAMESRV": "env:1"}).namesrv == "prod:1"
    assert read(file, "prod", env={}, namesrv="mine:1").namesrv == "mine:1"
    assert read(file, env={"ORDERLY_TLS": "yes"}).tls is True


def test_all_of_a_context_is_read(file):
    config = ClientConfig.from_settings(str(file), "prod", env={})
    assert config == ClientConfig(
        namesrv="prod:1",
        namespace="all",
        access_key="app",
        secret_key="hunter2",
        tls=True,
        connect_timeout=1.5,
    )


def test_without_a_file_there_is_the_environment():
    assert ClientConfig.from_settings(env={"ORDERLY_NAMESRV": "env:1"}).namesrv == "env:1"
    assert ClientConfig.from_settings(env={"NAMESRV_ADDR": "java:1"}).namesrv == "java:1"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "does not exist"),
        ("namesrv = ", "is not TOML"),
        ("namesvr = 'a:1'", "namesvr is not a setting"),
        ("[contexts.prod]\nsecret_kye = 'hunter2'", "contexts.prod.secret_kye is not a setting"),
        ("namesrv = 'a:1'\naccess_key = 'a'\nsecret_key = 42", "secret_key must be a str"),
        ("[namesrv]\na = 1", "must be a value, not a table"),
    ],
)
def test_a_mistake_is_told_without_its_value(tmp_path, text, said):
    path = tmp_path / "orderly.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=said) as raised:
        ClientConfig.from_settings(path, env={})
    assert "hunter2" not in str(raised.value)
    assert "42" not in str(raised.value)


def test_an_unknown_context_is_told(file):
    with pytest.raises(ConfigError, match="it has: prod, staging"):
        ClientConfig.from_settings(file, "gone", env={})


def warnings_of(caplog, event="readable_by_all"):
    return [r.getMessage() for r in caplog.records if event in r.getMessage()]


@pytest.mark.parametrize(
    ("mode", "content", "warns"),
    [(0o644, FILE, 1), (0o640, FILE, 0), (0o644, "namesrv = 'a:1'", 0)],
    ids=["secrets, for all", "secrets, for some", "no secrets"],
)
def test_a_file_with_secrets_that_all_can_read_is_warned_of_once(
    file, caplog, mode, content, warns
):
    module._warn_once.cache_clear()
    file.write_text(content)
    file.chmod(mode)
    for _ in range(3):
        ClientConfig.from_settings(file, env={})
    found = warnings_of(caplog)
    assert len(found) == warns
    assert not any("hunter2" in text for text in found)


@pytest.mark.parametrize(
    ("mode", "warns"), [(0o602, 1), (0o666, 1), (0o644, 0)], ids=["writes", "all", "reads only"]
)
def test_a_file_that_others_can_write_is_warned_of_once(file, caplog, mode, warns):
    module._warn_once.cache_clear()
    file.write_text("namesrv = 'a:1'")
    file.chmod(mode)
    for _ in range(3):
        ClientConfig.from_settings(file, env={})
    assert len(warnings_of(caplog, "writable_by_others")) == warns


@pytest.mark.parametrize(
    ("mode", "warns"),
    [(0o777, 1), (0o757, 1), (0o1777, 0), (0o755, 0)],
    ids=["all", "others", "only their own, as /tmp", "reads only"],
)
@pytest.mark.parametrize("linked", [False, True], ids=["", "by a link"])
def test_a_folder_in_which_others_can_replace_the_file_is_warned_of(
    tmp_path, caplog, mode, warns, linked
):
    module._warn_once.cache_clear()
    folder, path = tmp_path / "shared", tmp_path / "shared" / "orderly.toml"
    folder.mkdir()
    path.write_text("namesrv = 'a:1'")
    path.chmod(0o600)
    folder.chmod(mode)
    if linked:
        (tmp_path / "mine.toml").symlink_to(path)
        path = tmp_path / "mine.toml"
    ClientConfig.from_settings(path, env={})
    found = warnings_of(caplog, "writable_by_others")
    assert len(found) == warns
    assert all(str(folder) in text for text in found)


@pytest.mark.parametrize(("owner", "warns"), [("ours", 0), ("another", 1), ("root", 0)])
def test_a_file_of_another_users_is_warned_of(file, caplog, monkeypatch, owner, warns):
    module._warn_once.cache_clear()
    file.write_text("namesrv = 'a:1'")
    file.chmod(0o600)
    uid = file.stat().st_uid
    real = os.fstat
    owners = {"ours": uid, "another": uid + 1, "root": 0}

    def fstat(descriptor):
        found = list(real(descriptor))
        found[4] = owners[owner]
        return os.stat_result(found)

    monkeypatch.setattr(os, "fstat", fstat)
    ClientConfig.from_settings(file, env={})
    assert len(warnings_of(caplog, "writable_by_others")) == warns


@pytest.mark.parametrize(("group", "others"), [(1000, False), (100, True)], ids=["own", "shared"])
def test_the_owners_own_group_is_nobody_else(group, others):
    status = os.stat_result((0o100664, 0, 0, 1, 1000, group, 0, 0, 0, 0))
    assert module._others_write(status) is others
