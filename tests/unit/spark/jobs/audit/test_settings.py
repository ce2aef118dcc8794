"""What an audit is told: refused where it would audit something else than it says."""

import pytest

from orderly.errors import ConfigError
from orderly.spark.jobs.audit.settings import AuditSettings


@pytest.mark.parametrize("name", ["emit", "seqProperty", "seqproperty", "columns", "pushdown"])
def test_options_of_its_own_are_refused(name):
    with pytest.raises(ConfigError, match=name):
        AuditSettings({"topic": "t", name: "x"})


def test_a_negative_cap_is_refused():
    with pytest.raises(ConfigError, match="look_at"):
        AuditSettings({}, look_at=-1)


@pytest.mark.parametrize(
    ("seq_property", "gaps", "judged"), [("n", True, True), ("n", False, False), ("", True, False)]
)
def test_gaps_are_judged_of_numbers_only(seq_property, gaps, judged):
    assert AuditSettings({}, seq_property, gaps=gaps).judges_gaps is judged


def test_all_of_it_is_told():
    settings = AuditSettings({"topic": "t"}, "n", gaps=False, look_at=5, redact_keys=True)
    assert AuditSettings(**settings.document()) == settings
