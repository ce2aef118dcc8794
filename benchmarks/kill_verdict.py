"""What kill rounds amount to: the oracle's verdict, repeats beside their bound, and tokens."""

import statistics

from orderly.testing import judge
from tests.support.accounts import REFUSED, WRITTEN
from tests.support.members import by_lane, judge_ownerships

COUNTS = (
    "sent", "delivered", "duplicates", "log_duplicates", "lost", "disorder", "skipped", "overlaps",
    "unknown",
)  # fmt: skip


def judged(sent, processes, commits, accounts, *, takeovers, given, parked=None):
    """The report.

    Args:
        sent: acknowledged sends.
        processes: the members, living and dead.
        commits: what offsets the broker held all the while (CommitWatch).
        accounts: what handlers wrote to.
        takeovers: seconds until all queues were held again, of each round.
        given: the options.
        parked: what was parked (kill_parked.Found); None: nothing could be.
    """
    events = processes.events()
    wrong = commits.violations([*events, *(parked.settled if parked else ())])
    report = {
        "order": given.order,
        "handler": given.handler,
        "zombies": given.zombies,
        "rounds": len(takeovers),
        "members": given.members,
        "lease_seconds": given.lease,
        "wrong_commits": len(wrong),
        "takeover_seconds_median": round(statistics.median(takeovers), 1),
        "takeover_seconds_max": round(max(takeovers), 1),
        "seed": given.seed,
    }
    in_hand = set(processes.in_hand())
    judged_events = [event for event in events if event not in in_hand]
    faults = wrong
    if given.order == "key":
        sent, judged_events = by_lane(sent), by_lane(judged_events)
        of_keys, found = _by_key(processes, accounts, given.concurrency)
        report |= of_keys
        faults = [*wrong, *found, *accounts.overtaken()]
    if parked:
        of_parked, found = parked.figures(accounts, processes)
        report |= of_parked
        faults += found
    verdict = judge(sent, judged_events)
    report |= {name: getattr(verdict, name) for name in COUNTS}
    examples = [*verdict.examples, *faults[:20]]
    return {"ok": verdict.ok and not faults, **report, "examples": examples}


def _by_key(processes, accounts, concurrency):
    """Repeats beside their bound, and what tokens did; returns figures and faults."""
    found = judge_ownerships(processes.everybody, concurrency)
    struck = [found.of(member) for member in processes.dead]
    repeats = [sum(ownership.repeats for ownership in of_one) for of_one in struck]
    bounds = [sum(ownership.fresh for ownership in of_one) for of_one in struck]
    written_anew = accounts.faults()
    figures = {
        "ownerships": len(found.ownerships),
        "finished_ahead_at_a_kill": spread(sum(t.ahead for t in of_one) for of_one in struck),
        "repeats_of_a_kill": spread(repeats),
        "finished_since_the_last_record": spread(bounds),
        "seconds_since_the_last_record": spread(
            round(max((t.unsaved_for for t in of_one if t.events), default=0.0), 2)
            for of_one in struck
        ),
        "kills_with_more_repeats_than_that": sum(
            repeated > bound for repeated, bound in zip(repeats, bounds, strict=True)
        ),
        "repeats_finished_before_the_last_record": sum(t.early for t in found.ownerships),
        "repeats_that_were_on_record": sum("on record" in fault for fault in found.faults),
        "in_hand_beside_a_new_owner": len(processes.in_hand()),
        "writes": len(accounts.answers(WRITTEN)),
        "writes_refused_by_token": len(accounts.answers(REFUSED)),
        "writes_of_a_former_owner": len(written_anew),
    }
    return figures, [*found.faults, *written_anew]


def spread(values):
    """Median and largest."""
    values = list(values)
    return {"median": statistics.median(values), "max": max(values)} if values else None
