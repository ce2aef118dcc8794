"""A job that was killed while it finished its output does not stand in its own way afterwards."""

import pyarrow as pa
import pytest

from orderly.errors import ConfigError
from orderly.monitoring.backlog.states import Verdict
from orderly.report.contents import Report
from orderly.spark.jobs import output as module
from orderly.spark.jobs.files import LocalFiles
from orderly.spark.jobs.origin import origin
from orderly.spark.jobs.output import Output

KEYS = pa.table({"key": ["a", "b"]})


class Died(BaseException):
    """The process ends here."""


@pytest.fixture(autouse=True)
def no_session(monkeypatch):
    """An output of small tables on this machine asks nothing of Spark."""
    monkeypatch.setattr(module, "_session", lambda: None)
    monkeypatch.setattr(module, "require_format", lambda *_: None)
    monkeypatch.setattr(module, "files_at", lambda _, directory: LocalFiles(str(directory)))


def finish(directory, *, overwrite=False):
    with Output(directory, overwrite=overwrite) as output:
        output.table("keys", KEYS)
        document = origin("audit").document(Verdict.OK, {})
        output.finish(document, Report("t", Verdict.OK, "fine", 0.0, "us"))


def killed(patched, step, name):
    """Die at a step with a file, as by kill -9: nothing is cleaned up."""
    done = getattr(LocalFiles, step)

    def die(files, first, *rest):
        if first == name:
            raise Died
        done(files, first, *rest)

    patched.setattr(LocalFiles, step, die)
    patched.setattr(Output, "_leave", lambda _: None)


@pytest.mark.parametrize(
    ("step", "name"),
    [
        ("move", ".unfinished/keys"),
        ("move", ".unfinished/report.html"),
        ("write", "result.json"),
    ],
)
@pytest.mark.parametrize("replaces", [False, True])
def test_an_output_that_was_half_finished_can_be_made_again(
    tmp_path, monkeypatch, step, name, replaces
):
    if replaces:
        finish(tmp_path)
    with monkeypatch.context() as patched:
        killed(patched, step, name)
        with pytest.raises(Died):
            finish(tmp_path, overwrite=replaces)
    assert not (tmp_path / "result.json").exists()
    with pytest.raises(ConfigError, match="--overwrite"):
        finish(tmp_path)
    with pytest.raises(ZeroDivisionError), Output(tmp_path, overwrite=True):
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir()), "nobody would know any more whose it is"
    finish(tmp_path, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "keys", "report.html", "result.json",
    ]  # fmt: skip


def test_a_report_of_somebody_else_is_refused_before_the_work(tmp_path):
    (tmp_path / "report.html").write_text("mine")
    with pytest.raises(ConfigError, match=r"no result\.json says that a job made it"):
        Output(tmp_path, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert (tmp_path / "report.html").read_text() == "mine"
