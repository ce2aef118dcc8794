"""A job's output: whole or not there, and never at the cost of what is somebody else's."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orderly.errors import ConfigError
from orderly.monitoring.backlog.states import Verdict
from orderly.report.contents import Report
from orderly.spark.jobs.files import HadoopFiles, LocalFiles, files_at
from orderly.spark.jobs.origin import origin
from orderly.spark.jobs.output import Output

KEYS = pa.table({"key": ["a", "b"], "n": [1, 2]})


def report():
    return Report("Order of flights", Verdict.OK, "all in order", 0.0, "us")


def finish(output, **figures):
    output.finish(origin("audit").document(Verdict.OK, figures), report())


@pytest.fixture(params=["local", "hadoop"])
def files(request, spark, tmp_path):
    where = tmp_path / "with a space"
    return LocalFiles(str(where)) if request.param == "local" else HadoopFiles(spark, f"{where}")


def test_files_of_this_machine_and_of_hadoop_are_the_same(files):
    assert (files.read("a.json"), files.tree()) == (None, [])
    files.write("a.json", "é1")
    files.write("a.json", "é2")
    files.write("runs/1/b", "")
    assert (files.read("a.json"), files.exists("runs"), files.exists("gone")) == ("é2", True, False)
    assert files.tree() == ["a.json", "runs/1/b"]
    assert files.tree("runs") == ["runs/1/b"]
    assert [files.make("x/y"), files.make("x/y")] == [True, False]
    files.move("runs/1", "old/2")
    with pytest.raises(FileExistsError):
        files.move("a.json", "old")
    files.remove("x")
    files.remove("never-there")
    assert files.tree() == ["a.json", "old/2/b"]


def test_an_output_is_there_when_it_is_finished_and_not_before(spark, tmp_path):
    out = tmp_path / "out"
    with Output(out) as output:
        output.table("keys", KEYS)
        output.table("days", spark.range(4).selectExpr("id", "id % 2 as day"))
        assert [path.name for path in out.iterdir()] == [".unfinished"]
        finish(output, inversions=0)
    assert sorted(path.name for path in out.iterdir()) == [
        "days", "keys", "report.html", "result.json",
    ]  # fmt: skip
    assert pq.read_table(out / "keys").to_pydict() == KEYS.to_pydict()
    assert spark.read.parquet(output.path("days")).where("day = 1").count() == 2
    result = json.loads((out / "result.json").read_text())
    assert result["schema"] == "orderly.spark.audit/v1"
    assert result["tables"] == dict.fromkeys(("keys", "days"), "parquet")
    assert (result["verdict"], result["figures"]) == ("OK", {"inversions": 0})


def test_a_job_that_fails_leaves_nothing(spark, tmp_path):
    def run():
        with Output(tmp_path) as output:
            output.table("keys", KEYS)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run()
    assert not list(tmp_path.iterdir())


def test_figures_that_are_no_json_leave_no_half_output(spark, tmp_path):
    def run():
        with Output(tmp_path) as output:
            output.table("keys", KEYS)
            finish(output, found=object())

    with pytest.raises(TypeError):
        run()
    assert not list(tmp_path.iterdir())


def test_a_death_while_it_is_finished_leaves_no_mark_of_a_result(spark, tmp_path, monkeypatch):
    with Output(tmp_path) as output:
        output.table("keys", KEYS)
        finish(output)
    with Output(tmp_path, overwrite=True) as output:
        output.table("keys", KEYS)
        output.table("more", KEYS)
        moved = []

        def move(files, name, to):
            assert not moved, "killed"
            moved.append(to)

        monkeypatch.setattr(LocalFiles, "move", move)
        with pytest.raises(AssertionError, match="killed"):
            finish(output)
    assert moved
    assert not (tmp_path / "result.json").exists()


def test_an_earlier_output_is_replaced_only_if_told_and_nothing_else_is_removed(spark, tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    with Output(tmp_path) as output:
        output.table("keys", KEYS)
        output.table("extra", KEYS)
        finish(output)
    with pytest.raises(ConfigError, match="--overwrite"):
        Output(tmp_path)
    with Output(tmp_path, overwrite=True) as output:
        output.table("keys", KEYS.slice(1))
        assert pq.read_table(tmp_path / "keys").num_rows == 2  # the old one still holds
        finish(output)
    assert pq.read_table(tmp_path / "keys").num_rows == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "keys", "mine.txt", "report.html", "result.json",
    ]  # fmt: skip
    assert (tmp_path / "mine.txt").read_text() == "keep"


def test_what_no_result_of_ours_names_is_never_removed(spark, tmp_path):
    (tmp_path / "keys").mkdir()
    with Output(tmp_path, overwrite=True) as output, pytest.raises(ConfigError, match="is there"):
        output.table("keys", KEYS)
    (tmp_path / "result.json").write_text('{"schema": "other/v1", "tables": {"keys": ""}}')
    with pytest.raises(ConfigError, match="was not written by an orderly job"):
        Output(tmp_path, overwrite=True)
    (tmp_path / "result.json").write_text(
        '{"schema": "orderly.spark.audit/v1", "tables": {"../x": ""}}'
    )
    with Output(tmp_path, overwrite=True) as output:
        finish(output)
    assert (tmp_path / "keys").is_dir()


def test_two_runs_do_not_write_to_one_directory(spark, tmp_path):
    with Output(tmp_path), pytest.raises(ConfigError, match="another run"):
        Output(tmp_path)


def test_delta_is_refused_at_once_where_spark_has_none(spark, tmp_path):
    with pytest.raises(ConfigError, match="delta-spark"):
        Output(tmp_path, "delta")


@pytest.mark.parametrize("name", ["Keys", "a/b", "..", "result.json", ""])
def test_a_part_has_a_plain_name(spark, tmp_path, name):
    with Output(tmp_path) as output, pytest.raises(ConfigError, match="cannot be the name"):
        output.table(name, KEYS)


def test_a_path_is_where_spark_takes_it_to_be(spark, tmp_path):
    assert isinstance(files_at(spark, tmp_path), LocalFiles)
    assert files_at(spark, f"file://{tmp_path}").root == f"file://{tmp_path}"
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    conf.set("fs.defaultFS", "viewfs:///")
    try:
        assert isinstance(files_at(spark, f"file://{tmp_path}"), LocalFiles)
        with pytest.raises(Exception, match="viewfs"):
            files_at(spark, tmp_path)
    finally:
        conf.set("fs.defaultFS", "file:///")
