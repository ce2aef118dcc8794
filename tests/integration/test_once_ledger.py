"""Members are killed, and stopped for longer than their lease: each entry is in the ledger once."""

import pytest

from tests.support.consuming import unique
from tests.support.ledger import LedgerRounds
from tests.support.programs import postgresql

pytestmark = pytest.mark.needs("postgresql")


def test_balances_equal_the_oracles_whoever_was_killed_or_stopped(orderly_broker):
    with postgresql() as url, LedgerRounds(url, unique("group"), unique("topic")) as rounds:
        rounds.strike()
        rounds.settle()
        report = rounds.report()
    assert report["ok"], report
    assert report["repeat"] > 0, "nothing came again, so nothing was shown"
    assert report["duplicate"] > 0
