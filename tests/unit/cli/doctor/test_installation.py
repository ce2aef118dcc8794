"""`orderly doctor`: what is installed, what is not, and what cannot be used."""

import tomllib
from ctypes.util import find_library
from pathlib import Path

import pytest

from orderly.cli import doctor
from orderly.cli.root import run
from orderly.extras import install
from tests.support.certificates import Authority

PYPROJECT = Path(__file__).parents[4] / "pyproject.toml"
FIND = "orderly.native.library.find_library"


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch, tmp_path):
    monkeypatch.delenv("ORDERLY_NAMESRV", raising=False)
    monkeypatch.setenv("ORDERLY_CACHE", str(tmp_path))
    monkeypatch.setattr(FIND, lambda: None)


def test_without_librocketmq_nothing_is_wrong_and_it_says_how_to_get_it(doctor):
    found = doctor()
    assert (found.code, found.verdict) == (0, "OK")
    ((state, _, advice),) = found.of("librocketmq")
    assert state == "ABSENT"
    assert "apache/rocketmq-client-cpp" in advice
    assert "ORDERLY_LIBROCKETMQ" in advice
    assert [found.of(part)[0][0] for part in ("orderly", "python", "extra cli")] == ["OK"] * 3


@pytest.mark.parametrize(
    ("path", "why"),
    [("/no/such/librocketmq.so", "cannot be loaded"), (find_library("c"), "lacks CreateMessage")],
)
def test_one_that_cannot_be_used_is_critical(doctor, monkeypatch, path, why):
    monkeypatch.setattr(FIND, lambda: path)
    found = doctor()
    assert found.code == 2
    ((state, shown, advice),) = found.of("librocketmq")
    assert (state, shown) == ("CRITICAL", path)
    assert why in advice


def test_an_extra_that_is_not_there_is_absent_with_its_command(doctor, monkeypatch):
    monkeypatch.setattr(
        "orderly.cli.doctor.find_spec", lambda name: None if name == "lz4" else name
    )
    found = doctor()
    assert found.code == 0
    assert found.of("extra speed") == [("ABSENT", "lacks lz4", install("speed"))]
    assert found.of("extra redis")[0][0] == "OK"


def test_a_part_of_a_package_that_is_not_there_is_absent():
    assert not doctor._there("no_such_package.of_it")


def test_it_knows_every_extra():
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    assert set(doctor.EXTRAS) == set(extras) - {"all", "native"}


def test_without_a_name_server_that_is_said_and_no_fault(doctor):
    ((state, found, advice),) = doctor().of("name servers")
    assert (state, found) == ("ABSENT", "none is named: no cluster was looked at")
    assert "--namesrv HOST:PORT" in advice


@pytest.mark.parametrize("wanted", [("shipping",), ("-t", "orders")])
def test_a_group_or_topic_that_cannot_be_looked_at_is_unknown(doctor, wanted):
    found = doctor(*wanted)
    assert (found.code, found.of("name servers")[0][0]) == (3, "UNKNOWN")


def test_settings_that_cannot_be_used_are_critical(doctor, monkeypatch):
    monkeypatch.setenv("ORDERLY_NAMESRV", "127.0.0.1:1")
    monkeypatch.setenv("ORDERLY_TLS", "yes")
    monkeypatch.setenv("ORDERLY_TLS_CA_FILE", "/no/such/file")
    found = doctor()
    ((state, _, advice),) = found.of("settings")
    assert (found.code, state) == (2, "CRITICAL")
    assert "tls_ca_file" in advice


@pytest.mark.needs("openssl")
@pytest.mark.parametrize(("verify", "state"), [("none", "WARNING"), ("chain", "OK")])
def test_tls_that_trusts_anybody_is_a_warning(doctor, monkeypatch, tmp_path, verify, state):
    monkeypatch.setenv("ORDERLY_TLS_CA_FILE", str(Authority(tmp_path).ca))
    monkeypatch.setenv("ORDERLY_NAMESRV", "127.0.0.1:1")
    monkeypatch.setenv("ORDERLY_TLS", "yes")
    monkeypatch.setenv("ORDERLY_TLS_VERIFY", verify)
    assert doctor().of("tls")[0][:2] == (state, f"on, tls_verify={verify}")


def test_context_and_namespace_are_told(doctor, monkeypatch, tmp_path):
    path = tmp_path / "config.toml"
    path.write_text('[contexts.prod]\nnamesrv = "127.0.0.1:1"\nnamespace = "shop"\n')
    monkeypatch.setenv("ORDERLY_CONFIG", str(path))
    found = doctor("--context", "prod")
    assert found.of("context") == [("OK", f"prod, of {path}", "")]
    assert found.of("namespace") == [("OK", "shop (context prod)", "")]


def test_for_a_reader_it_is_a_table_and_what_to_do(capsys):
    assert run(["doctor"]) == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.split() == ["AREA", "PART", "STATE", "FOUND"]
    assert "What to do:" not in lines, "nothing is wrong"
    assert lines[lines.index("Absent, if you need it:") - 1] == ""
    assert lines[-1].startswith("name servers: no name server is named")


@pytest.mark.parametrize(("compiled", "said"), [(True, "yes"), (False, "no")])
def test_it_says_whether_it_is_compiled(doctor, monkeypatch, compiled, said):
    monkeypatch.setattr("orderly.cli.doctor.COMPILED", compiled)
    assert doctor().of("compiled") == [("OK", said, "")]
