"""The options that all jobs have, and what becomes of errors; no Spark is started."""

from __future__ import annotations

import sys

import click
import pytest

from orderly.cli.root import root, run
from orderly.cli.settings import CommonOptions
from orderly.cli.spark import (
    EXIT_CODES,
    JobContext,
    _selection,
    cause,
    connection,
    job_options,
    spark_errors,
)
from orderly.errors import ConfigError, DataLost, OrderlyError
from orderly.extras import install
from orderly.monitoring.backlog.states import Verdict

TOPIC = ("orders", "--namesrv", "127.0.0.1:1")


@pytest.fixture
def job(monkeypatch):
    """`orderly probe …` gives the job that its options say; `.run` runs what a job would."""
    seen = []

    def command(**options):
        @click.command()
        @job_options(**options)
        @click.pass_context
        def probe(ctx, job):
            seen.append(job)
            return 0

        return probe

    def parsed(*args, **options):
        monkeypatch.setattr(type(root), "get_command", lambda *_: command(**options))
        assert run(["probe", *args]) == 0
        return seen[-1]

    return parsed


def test_what_is_not_given_is_left_to_spark_and_to_the_source(job):
    found = job(*TOPIC)
    assert found.source() == {}
    assert (found.master, found.conf, found.out, found.quiet) == (None, {}, "", False)
    assert (found.table_format, found.overwrite, found.form.output) == ("parquet", False, "table")


@pytest.mark.parametrize(
    ("args", "options"),
    [
        (["--from", "earliest"], {"startingOffsets": "earliest"}),
        (["--until", "latest"], {"endingOffsets": "latest"}),
        (["--from", "2026-11-21T08:00:00Z"], {"startingTimestamp": "2026-11-21T08:00:00Z"}),
        (["--until", "1800000000000"], {"endingTimestamp": "1800000000000"}),
        (["--from", "group:shipping"], {"startingOffsets": "group:shipping"}),
        (["--from", '{"t": {"b": {"0": 5}}}'], {"startingOffsets": '{"t": {"b": {"0": 5}}}'}),
        (["--option", "x=8", "--option", "tags=A || B=C"], {"x": "8", "tags": "A || B=C"}),
    ],
)  # fmt: skip
def test_where_to_begin_and_to_end_become_options_of_the_source(job, args, options):
    assert job(*TOPIC, *args).source() == options


def test_a_job_that_reads_no_topic_takes_none(job, capsys):
    found = job("--conf", "spark.driver.memory=4g", topic=False)
    assert (found.topic, found.source()) == ("", {})
    assert found.conf == {"spark.driver.memory": "4g"}
    with pytest.raises(AssertionError):
        job(*TOPIC, topic=False)
    assert "unexpected extra argument" in capsys.readouterr().err


@pytest.mark.parametrize("args", [["--conf", "spark.x"], ["--option", "=1"]])
def test_a_pair_is_a_pair(job, args, capsys):
    with pytest.raises(AssertionError):
        job(*TOPIC, *args)
    assert "takes NAME=VALUE" in capsys.readouterr().err


def test_workers_are_told_an_address_and_a_file_and_no_secret(tmp_path, monkeypatch):
    file = tmp_path / "settings.toml"
    file.write_text('access_key = "AK"\nsecret_key = "SK"\nnamesrv = "10.0.0.1:9876"\n')
    monkeypatch.setenv("ORDERLY_CONFIG", str(file))
    told = {"namesrv": "10.0.0.1:9876", "settingsFile": str(file)}
    assert connection(CommonOptions()) == told
    file.write_text(f"[contexts.prod]\n{file.read_text()}")
    assert connection(CommonOptions(context="prod")) == {**told, "settingsContext": "prod"}


def test_a_topic_is_read_in_the_namespace_that_holds(job):
    found = job(*TOPIC, "--from", "latest")
    settings = CommonOptions(namesrv="127.0.0.1:1", namespace="shop")
    here = JobContext(None, None, None, found, settings)
    assert here.source["topic"] == "shop%orders"
    assert here.source["startingOffsets"] == "latest"


@pytest.mark.parametrize("name", ["audit", "replay"])
def test_help_of_a_job_needs_no_spark(name, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert run(["spark", name, "--help"]) == 0
    assert "--out" in capsys.readouterr().out


def hidden(monkeypatch):
    for name in ("pyspark", "pyspark.sql"):
        monkeypatch.setitem(sys.modules, name, None)


def test_without_pyspark_one_line_says_what_to_install(monkeypatch, capsys):
    hidden(monkeypatch)
    assert run(["spark", "audit", *TOPIC]) == 3
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == f"error: orderly spark needs pyspark: {install('cli', 'spark')}\n"


def test_without_java_one_line_says_so(monkeypatch, capsys):
    pytest.importorskip("pyspark")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    assert run(["spark", "audit", *TOPIC]) == 3
    told = capsys.readouterr()
    assert told.err.startswith("error: Spark needs Java 17 or newer and none was found")
    assert told.err.count("\n") == 1


def test_a_bad_topic_is_told_before_spark_starts(monkeypatch, capsys):
    hidden(monkeypatch)
    assert run(["spark", "audit", "no topic", "--namesrv", "127.0.0.1:1"]) == 3
    assert "pyspark" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verdict", "code"),
    [(Verdict.OK, 0), (Verdict.WARNING, 1), (Verdict.CRITICAL, 1), (Verdict.UNKNOWN, 3)],
)
def test_every_verdict_has_its_exit_code(verdict, code):
    assert EXIT_CODES[verdict] == code


TRACE = """[PYTHON_DATA_SOURCE_ERROR] Failed when running Python data source.
  File "orderly/spark/reading.py", line 3, in read
orderly.errors.ConfigError: first
orderly.errors.DataLost: orders/broker-a/3: offsets [5, 9) are gone
\tat org.apache.spark
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TRACE, "orders/broker-a/3: offsets [5, 9) are gone"),
        ("\n[X] path not found\n at y", "Spark failed: [X] path not found; --debug shows all"),
        ("", "Spark failed: no message; --debug shows all"),
    ],
)
def test_of_a_spark_error_the_cause_is_told(text, said):
    assert cause(text) == said


def test_errors_of_spark_become_ours_and_others_stay():
    pyspark = pytest.importorskip("pyspark")
    spark = pyspark.errors.PySparkException(TRACE)
    with pytest.raises(OrderlyError, match="are gone") as told, spark_errors():
        raise spark
    assert told.value.__cause__ is spark
    for other in (ZeroDivisionError("x"), DataLost("y")):
        with pytest.raises(type(other)), spark_errors():
            raise other


@pytest.mark.parametrize("job", ["audit", "replay"])
def test_help_tells_its_exit_codes_and_imports_no_pyspark(job, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert run(["spark", job, "--help"]) == 0
    assert "Exit codes:\n  0  " in capsys.readouterr().out


def test_a_replay_needs_a_target(capsys):
    assert run(["spark", "replay", "/data/orders"]) == 3
    assert "--into" in capsys.readouterr().err


def test_a_file_of_no_keys_does_not_select_all(tmp_path):
    file = tmp_path / "keys"
    file.write_text("\n\n")
    with pytest.raises(ConfigError, match="names no key"):
        _selection(start="", end="", keys=(), keys_file=file, places="")
    file.write_text("o-1\n\no-2\n")
    chosen = _selection(start="", end="", keys=("o-1",), keys_file=file, places="")
    assert chosen.keys == ("o-1", "o-2")
