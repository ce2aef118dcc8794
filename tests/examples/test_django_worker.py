"""examples/django_worker: its own tests pass, its migration is what its models say."""

import pytest

from tests.support.programs import EXAMPLES


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["test"], "Ran 8 tests"),
        (["makemigrations", "--check", "--dry-run"], "No changes detected"),
        (["check", "--fail-level", "INFO"], "no issues"),
    ],
    ids=lambda each: each if isinstance(each, str) else each[0],
)
def test_it_is_a_sound_project(command, told, start, tmp_path):
    settings = {"SQLITE_FILE": str(tmp_path / "shop.sqlite3")}
    run = start("manage.py", *command, cwd=EXAMPLES / "django_worker", **settings)
    assert run.process.wait(60) == 0, run.errors
    assert told in run.errors + "\n".join(run.lines)
