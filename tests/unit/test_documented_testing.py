"""The test files that docs/how-to/testing.md shows do pass."""

import re
import subprocess
import sys
from pathlib import Path

DOC = Path(__file__).parents[2] / "docs" / "how-to" / "testing.md"
FILE = re.compile(r"```python\n# (test_\w+\.py)\n(.*?)```", re.DOTALL)


def test_the_files_shown_are_good_tests(tmp_path):
    shown = FILE.findall(DOC.read_text("utf-8"))
    for name, text in shown:
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--broker=fake", "-W", "error"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert f"{len(shown)} passed" in done.stdout, done.stdout
    assert len(shown) == 3
