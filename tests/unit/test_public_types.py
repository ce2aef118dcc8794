"""Type checkers refuse what cannot work, and nothing else: a handler that answers no outcome, say.

At run time that is a failure of the message, or an error; in an editor it is a red line.
"""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

SNIPPETS = Path(__file__).with_name("public_types.py")
ROOT = SNIPPETS.parents[2]
REFUSED = {
    number
    for number, line in enumerate(SNIPPETS.read_text().splitlines(), 1)
    if line.endswith("# refused")
}


def run(*command, **environment):
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return done.stdout


@pytest.mark.skipif(find_spec("mypy") is None, reason="mypy is not installed")
def test_mypy_refuses_exactly_these(tmp_path):
    strict = ("mypy", "--strict", "--follow-imports=silent", "--no-pretty", str(SNIPPETS))
    output = run(*strict, MYPY_CACHE_DIR=str(tmp_path), COLUMNS="200")
    found = {int(line) for line in re.findall(r"(?m)^[^:]+\.py:(\d+): error:", output)}
    assert found == REFUSED, output


@pytest.mark.skipif(find_spec("basedpyright") is None, reason="basedpyright is not installed")
def test_pyright_refuses_exactly_these(tmp_path):
    settings = {"typeCheckingMode": "strict", "include": [str(SNIPPETS)], "extraPaths": [str(ROOT)]}
    project = tmp_path / "pyrightconfig.json"
    project.write_text(json.dumps(settings))
    python = ("--pythonpath", sys.executable)
    output = run("basedpyright", "--outputjson", "-p", str(project), *python)
    found = [
        each for each in json.loads(output)["generalDiagnostics"] if each["severity"] == "error"
    ]
    lines = {each["range"]["start"]["line"] + 1 for each in found}
    assert lines == REFUSED, [
        each for each in found if each["range"]["start"]["line"] + 1 not in REFUSED
    ]
