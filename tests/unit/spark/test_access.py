from __future__ import annotations

import pickle

import pytest

from orderly.errors import ConfigError
from orderly.spark.access import Access, kept_client
from orderly.spark.options import access_of, parse_read

SETTINGS = """
namesrv = "ns-file:9876"
access_key = "who"
secret_key = "hush-hush"
[contexts.prod]
namesrv = "ns-prod:9876"
"""


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    for name in ("ORDERLY_NAMESRV", "NAMESRV_ADDR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "orderly.toml"
    path.write_text(SETTINGS)
    return str(path)


def test_name_servers_come_from_options_file_context_or_environment(file, monkeypatch):
    assert Access("a:1", file).settled().namesrv == "a:1"
    assert Access("", file).settled().namesrv == "ns-file:9876"
    assert Access("", file, "prod").settled().namesrv == "ns-prod:9876"
    monkeypatch.setenv("ORDERLY_NAMESRV", "ns-env:1")
    assert Access().settled() == Access("ns-env:1")


def test_without_a_name_server_nothing_can_be_read():
    with pytest.raises(ConfigError, match="ORDERLY_NAMESRV"):
        Access().settled()


def test_secrets_reach_the_client_and_nothing_that_is_pickled(file):
    given = {"topic": "orders", "settingsFile": file, "settingsContext": "prod"}
    access = access_of(parse_read(given))
    assert access == Access("", file, "prod")
    client = kept_client(access)
    assert (client.config.secret_key, client.config.namesrv) == ("hush-hush", "ns-prod:9876")
    assert b"hush" not in pickle.dumps(access.settled())


def test_a_process_keeps_its_clients():
    assert kept_client(Access("a:1")) is kept_client(Access("a:1"))
    assert kept_client(Access("a:1")) is not kept_client(Access("b:1"))
