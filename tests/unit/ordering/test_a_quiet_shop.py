"""How long a bad message waits where no other key comes, as docs/how-to/poison-policy.md says."""

from orderly.ordering.poison import FailureKind, Finding, PoisonRules, VerdictReason, Verdicts

RULES = PoisonRules()


def until_poison(verdicts, *, beside=lambda at: None):
    """Have a message fail again and again; returns when it was found bad, and the reasons before.

    Args:
        beside: called before each try, with the time.
    """
    at, reasons = 1.0, []
    while True:
        beside(at)
        wait = verdicts.admit("bad", at)
        if wait == 0:
            verdict = verdicts.failed("bad", 7, "how", FailureKind.ORDINARY, at)
            if verdict.finding is Finding.POISON:
                return at, reasons
            reasons += [verdict.reason] * (verdict.reason not in reasons)
            wait = verdict.wait * 0.75  # between half and the whole of it
        at += wait


def handled(verdicts, at, keys):
    for key in keys:
        assert verdicts.admit(key, at) == 0
        verdicts.succeeded(key, at)


def test_it_waits_five_to_six_minutes():
    verdicts = Verdicts()
    handled(verdicts, 0.0, range(10))
    seconds, reasons = until_poison(verdicts)
    assert reasons == [VerdictReason.TOO_EARLY, VerdictReason.NO_CONTROL]
    assert RULES.window < seconds <= RULES.window + RULES.longest_wait


def test_a_busy_one_waits_a_minute():
    verdicts = Verdicts()
    seconds, reasons = until_poison(verdicts, beside=lambda at: handled(verdicts, at, range(10)))
    assert reasons == [VerdictReason.TOO_EARLY]
    assert RULES.span <= seconds < 2 * RULES.span
