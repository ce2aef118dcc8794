"""Poison verdicts against a labelled corpus of faults, in virtual time; beside them peers' rules.

    python -m benchmarks.poison_corpus             # a table
    python -m benchmarks.poison_corpus --json      # precision, recall, each scenario

`precision`: of the parked messages those that are bad. `recall`: of the bad messages those parked
within their budget; without those that many keys share (`recall_with_held` has them, however late).
Why these wait, and why some that are not bad are parked, is argued in benchmarks/figures.md.
"""

import argparse
import json
import statistics

from benchmarks.poison_scenarios import CORPUS
from benchmarks.poison_simulation import Simulation, Trouble
from orderly.errors import UndecodableBody
from orderly.ordering.backoff import doubled
from orderly.ordering.fingerprint import fingerprint
from orderly.ordering.poison import FailureKind, Finding, Verdicts

PROBE = 1  # messages an outage may park


class ControlGroup:
    """Ours. `failed` returns the seconds to wait, None: park it."""

    parks = False

    def __init__(self, scenario):
        self.scenario, self.verdicts = scenario, Verdicts()
        self.admit, self.succeeded = self.verdicts.admit, self.verdicts.succeeded
        self.forget = self.verdicts.forget

    def failed(self, key, offset, error, now):
        if isinstance(error, UndecodableBody):
            verdict = self.verdicts.unreadable(key, 1, now)
        else:
            digest, kind = fingerprint(error).digest, self._kind(error)
            verdict = self.verdicts.failed(key, offset, digest, kind, now, parks=self.parks)
        return None if verdict.finding is Finding.POISON else verdict.wait

    def _kind(self, error):
        if isinstance(error, self.scenario.fatal):
            return FailureKind.FATAL
        return (
            FailureKind.TRANSIENT
            if isinstance(error, self.scenario.transient)
            else FailureKind.ORDINARY
        )


class NamedParked(ControlGroup):
    """Ours where `on_error` says park_key of the fatal classes, and not a policy that is final."""

    parks = True


class Attempts:
    """Peers: the 17th failure of a message, whatever it is; waits doubled from 1 to 30 s."""

    most = 16

    def __init__(self, scenario):
        self.counts = {}

    def admit(self, key, now):
        return 0.0

    def succeeded(self, key, now):
        self.counts.pop(key, None)

    def forget(self, key):
        self.counts.pop(key, None)

    def failed(self, key, offset, error, now):
        count = self.counts[key] = self.counts.get(key, 0) + 1
        return None if count > self.most else doubled(count, 1.0, 30.0)


class FewAttempts(Attempts):
    """The same with as few tries as ours needs."""

    most = 7


class Classes(Attempts):
    """Peers: classes named as fatal at once, all others never."""

    def __init__(self, scenario):
        super().__init__(scenario)
        self.fatal = scenario.fatal

    def failed(self, key, offset, error, now):
        count = self.counts[key] = self.counts.get(key, 0) + 1
        return None if isinstance(error, self.fatal) else doubled(count, 1.0, 30.0)


RULES = {
    "control group": ControlGroup,
    "named parked": NamedParked,
    "17 attempts": Attempts,
    "8 attempts": FewAttempts,
    "class": Classes,
}


def score(scenario, run):
    """Return what the run of one scenario is worth."""
    parked = {found.message: found for found in run.parked}
    asked = {message: given for message, given in run.bad.items() if not given[0].held}
    found = [parked[message] for message in run.bad if message in parked]
    return {
        "bad": len(asked),
        "held": len(run.bad) - len(asked),
        "found": sum(_in_time(given, parked.get(message)) for message, given in asked.items()),
        "found_ever": sum(message in parked for message in asked),
        "found_held": sum(m in parked and given[0].held for m, given in run.bad.items()),
        "wrong": sum(message not in run.bad for message in parked),
        "seconds": [round(one.at - run.bad[one.message][1], 1) for one in found],
        "tries": [one.tries for one in found],
        "calls": run.tries,
        "handled": run.handled,
        "outage": any(isinstance(fault, Trouble) for fault in scenario.faults),
    }


def _in_time(given, parked):
    fault, failed_at = given
    return parked is not None and parked.at <= max(failed_at, fault.after) + fault.budget


def totals(rows):
    """Return precision and recall of many scenarios, and the most an outage parked."""
    names = ("bad", "held", "found", "found_ever", "found_held", "wrong")
    bad, held, found, found_ever, found_held, wrong = (
        sum(row[name] for row in rows) for name in names
    )
    right = found_ever + found_held
    parked = right + wrong
    outages = [row["wrong"] + row["found_held"] for row in rows if row["outage"]]
    return {
        "precision": right / parked if parked else 1.0,
        "recall": found / bad if bad else 1.0,
        "recall_however_late": found_ever / bad if bad else 1.0,
        "recall_with_held": right / (bad + held) if bad + held else 1.0,
        "bad": bad,
        "wrong": wrong,
        "parked_by_outages": sum(outages),
        "most_parked_by_an_outage": max(outages, default=0),
        "seconds_to_find": _median([s for row in rows for s in row["seconds"]]),
        "tries_to_find": _median([t for row in rows for t in row["tries"]]),
    }


def _median(values):
    return statistics.median(values) if values else None


def judge(scenarios, rule, seed=1):
    """Return name -> score of each scenario under a rule."""
    return {s.name: score(s, Simulation(s, rule(s), seed).play()) for s in scenarios}


def main():
    given = _arguments()
    everything = [scenario for group in CORPUS.values() for scenario in group]
    rows = {name: judge(everything, rule, given.seed) for name, rule in RULES.items()}
    by_rule = {name: totals(list(of.values())) for name, of in rows.items()}
    ours = by_rule["control group"]
    report = {
        "scenarios": len(everything),
        "precision": ours["precision"],
        "recall": ours["recall"],
        "recall_with_held": ours["recall_with_held"],
        "rules": by_rule,
        "bars": {
            "no outage parks more than the probe": ours["most_parked_by_an_outage"] <= PROBE,
            "every poison found within its budget": ours["recall"] == 1.0,
        },
        "by_scenario": {s.name: {rule: rows[rule][s.name] for rule in RULES} for s in everything},
    }
    print(json.dumps(report, indent=2) if given.json else _as_text(report))


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def _as_text(report):
    lines = [f"{'found/bad+wrongly parked':66}" + "".join(f"{name:>16}" for name in RULES)]
    for group, scenarios in CORPUS.items():
        lines += ["", group]
        for scenario in scenarios:
            cells = (_cell(report["by_scenario"][scenario.name][rule]) for rule in RULES)
            lines.append(f"  {scenario.name:64}" + "".join(f"{cell:>16}" for cell in cells))
    lines.append("")
    for name in report["rules"]["class"]:
        values = (report["rules"][rule][name] for rule in RULES)
        lines.append(f"{name:66}" + "".join(f"{_number(value):>16}" for value in values))
    lines += [f"{'met ' if met else 'MISSED'}  {bar}" for bar, met in report["bars"].items()]
    return "\n".join(lines)


def _cell(row):
    found, bad = row["found"] + row["found_held"], row["bad"] + row["held"]
    wrong = f" +{row['wrong']}" if row["wrong"] else ""
    return (f"{found}/{bad}" if bad else "-") + wrong


def _number(value):
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) and value <= 1 else f"{value:g}"


if __name__ == "__main__":
    main()
