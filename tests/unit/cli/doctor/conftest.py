"""Run the doctor and read what it found."""

import json
from types import SimpleNamespace

import pytest

from orderly.cli.root import run


@pytest.fixture
def doctor(capsys):
    """Run it: `.code`, `.findings`, and `.of(part)`, those of a part as (state, found, advice)."""

    def call(*args):
        code = run(["doctor", "-o", "json", *args])
        document = json.loads(capsys.readouterr().out)
        assert document["schema"] == "orderly.doctor/v2"
        assert document["exit_code"] == code
        findings = document["findings"]
        return SimpleNamespace(
            code=code,
            verdict=document["verdict"],
            findings=findings,
            of=lambda part: [
                (it["state"], it["found"], it["advice"]) for it in findings if it["part"] == part
            ],
        )

    return call
