"""`.ci/audit.py` never calls packages clean that nobody looked up."""

import pytest

from tests.support.programs import script

CLEAN = {"name": "a", "version": "1", "vulns": []}
WEAK = CLEAN | {"vulns": [{"id": "CVE-1", "fix_versions": ["2"]}]}
UNKNOWN = {"name": "b", "skip_reason": "not found"}


@pytest.fixture
def audit(monkeypatch):
    module = script("audit")

    def run(*packages, away=False, required=False):
        answer = None if away else {"dependencies": packages}
        monkeypatch.setattr(module, "asked", lambda: answer)
        return module.main(required)

    return run


def test_all_looked_up_and_none_known_is_clean(audit, capsys):
    assert audit(CLEAN, CLEAN) == 0
    assert "no known vulnerability in 2" in capsys.readouterr().out


def test_a_known_one_fails_also_beside_packages_that_nobody_knows(audit, capsys):
    assert audit(CLEAN, WEAK, UNKNOWN) == 1
    assert "a 1: CVE-1, mended in: 2" in capsys.readouterr().out


@pytest.mark.parametrize("packages", [(), (UNKNOWN,), (CLEAN, UNKNOWN)])
@pytest.mark.parametrize("required", [False, True])
def test_what_was_not_looked_up_is_told_and_may_fail(audit, capsys, packages, required):
    assert audit(*packages, away=not packages, required=required) == required
    out, _ = capsys.readouterr()
    assert "no known" not in out
    assert "audit: NOT CHECKED: " in out.splitlines()[-1]
