"""`make test-versions`: what came of a release is its row, and the other rows stay."""

import subprocess
import sys
from datetime import UTC, datetime

from tests.versions import __main__ as versions
from tests.versions import differences
from tests.versions.__main__ import (
    BEGIN,
    END,
    ROOT,
    Suite,
    SuiteOutcome,
    page,
    read,
    releases,
    run,
)
from tests.versions.differences import Difference, of_release

BEGUN = datetime(2026, 11, 24, tzinfo=UTC)
RESULTS = """<testsuites><testsuite>
<testcase classname="test_a" name="test_right"/>
<testcase classname="test_a" name="test_known"><skipped type="pytest.xfail"/></testcase>
<testcase classname="test_a" name="test_left"><skipped type="pytest.skip"/></testcase>
<testcase classname="test_a" name="test_wrong"><failure/></testcase>
<testcase classname="test_a" name="test_ended"><error/></testcase>
</testsuite></testsuites>"""


def test_a_row_is_replaced_and_the_others_stay_in_order(monkeypatch):
    told = Difference(
        "5.0.0", ("tests/contract/test_a.py::test_known",), "No settings of one topic."
    )
    monkeypatch.setattr(differences, "DIFFERENCES", (told,))
    text = f"before\n{BEGIN}\n{END}\nafter"
    for release in ("5.5.0", "4.9.7", "5.5.0"):
        found = {"contract": SuiteOutcome(3, 1, ("a", "b"))}
        text = page(text, release, found, BEGUN)
    lines = text.splitlines()
    assert (lines[0], lines[-1]) == ("before", "after")
    rows = [line for line in lines if line[:3] in ("| 4", "| 5")]
    assert [row.split(" | ")[0] for row in rows] == ["| 4.9.7", "| 5.5.0"]
    assert rows[0].split(" | ")[1] == "3 passed, 1 differ, **2 failed**"
    assert (
        text.count("Before 5.0.0:\n\n- No settings of one topic. (`test_a.py::test_known`)\n") == 1
    )


def test_the_page_lists_the_differences_that_are_tested():
    written = versions.PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    assert written.endswith("\n".join(["", "", *versions.listed(), ""]))


def test_a_test_that_is_only_begun_is_shown_so():
    assert Difference("5.0.0", ("tests/x.py::test_a[b-c",), "").shown_by == "`x.py::test_a[b-c…`"
    assert Difference("5.0.0", ("tests/x.py::",), "").shown_by == "`x.py::…`"


def test_results_are_counted_by_what_came_of_them(tmp_path):
    file = tmp_path / "results.xml"
    assert not read(file).ended
    file.write_text(RESULTS)
    names = ("test_a::test_wrong", "test_a::test_ended")
    assert read(file) == SuiteOutcome(1, 1, names)


FLAKY = """
from pathlib import Path

def test_passes():
    pass

def test_passes_alone():
    file = Path(__file__).with_name("begun")
    begun = file.exists()
    file.touch()
    assert begun

def test_fails():
    raise AssertionError
"""


def test_what_fails_runs_once_more_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(versions, "LOGS", tmp_path)
    file = tmp_path / "test_flaky.py"
    file.write_text(FLAKY)
    outcome = run("5.5.0", Suite("flaky", (str(file),), "", 1), quick=False, jobs=0)
    assert (outcome.passed, outcome.alone, len(outcome.failed)) == (2, 1, 1)
    assert outcome.text == "2 passed (1 only when run alone), **1 failed**"


def test_every_release_has_its_jars():
    for release in releases():
        text = versions.jars_of(release).read_text()
        assert f"/rocketmq-broker-{release}.jar" in text
    assert {"4.9.7", "5.1.4", "5.3.3", "5.4.0", "5.5.0", "5.5.1"} == set(releases())


def test_a_difference_is_about_what_came_before(monkeypatch):
    late = Difference("5.3.0", ("tests/x.py",), "")
    monkeypatch.setattr(differences, "DIFFERENCES", (late,))
    assert of_release("5.1.4") == [late]
    assert of_release("4.9.7") == [late]
    assert of_release("5.3.0") == of_release("5.10.0") == []


def test_a_release_that_is_none_is_refused():
    command = [sys.executable, "-m", "tests.versions", "--versions", "5.5.0 5.9.9"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "no release 5.9.9; there are: 4.9.7 5.1.4" in done.stderr
