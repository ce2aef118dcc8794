"""--from and --to of `orderly spark backlog`: moments, in UTC unless they say a zone."""

import pytest

from orderly.cli.root import run
from orderly.cli.spark.backlog import moment
from orderly.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None),
        ("2026-11-21", 1_795_219_200),
        ("2026-11-21T08:00:00Z", 1_795_248_000),
        ("2026-11-21T08:00", 1_795_248_000),
        ("2026-11-21T10:00:00+02:00", 1_795_248_000),
    ],
)
def test_a_moment_is_read(text, seconds):
    assert moment("--from", text) == seconds


@pytest.mark.parametrize("text", ["", "yesterday", "20261121", "2026-13-01", "1795219200"])
def test_what_is_no_moment_is_refused(text):
    with pytest.raises(ConfigError, match="is no time"):
        moment("--from", text)


def test_a_history_that_is_not_there_is_a_line_and_not_measured(tmp_path, capsys):
    assert run(["spark", "backlog", str(tmp_path / "nothing")]) == 3
    assert "does not exist" in capsys.readouterr().err
    assert run(["spark", "backlog", str(tmp_path), "--from", "soon"]) == 3
    assert "is no time" in capsys.readouterr().err
