"""From a seed to a scenario: most histories are short, and each kind of trouble has its share."""

import random

from tests.simulation.beginning_plots import BEGINNING_PLOTS
from tests.simulation.cast import Cast
from tests.simulation.engine_plots import blocked
from tests.simulation.parking_plots import forged
from tests.simulation.plots import PLOTS, reset_while_away, resets_in_a_row
from tests.simulation.program_plots import PROGRAM_PLOTS, storm
from tests.simulation.repeat_plots import REPEAT_PLOTS, copies_beside
from tests.simulation.scenario import RETRIES, Scenario
from tests.simulation.steering_plots import steered

# What a history is about: each by chances of its own (its name seeds them), the last one drawn
# counts. (name, share of the histories, plots)
_SUBJECTS = (
    ("repeats", 0.06, REPEAT_PLOTS),  # sends that reach a broker twice
    ("program", 0.35, PROGRAM_PLOTS),
    ("offline", 0.02, (reset_while_away,)),
    ("in a row", 0.02, (resets_in_a_row,)),
    ("steering", 0.12, (steered,)),  # keys are paused, or rates limited
    ("beginnings", 0.05, BEGINNING_PLOTS),  # where a queue begins
    ("engines", 0.04, (blocked,)),  # something blocks an event loop
    ("forgeries", 0.03, (forged,)),
    ("bad keys", 0.02, (storm,)),  # most keys fail, and others do not
)
_BY_KEY = ("max_suspend", "max_span")  # settings that decide nothing by queue


def draw(seed):
    """The scenario of a seed."""
    rng = random.Random(f"scenario {seed}")
    members = rng.choice([1, 2, 2, 3])
    producers, brokers = rng.choice([1, 1, 1, 2]), rng.choice([1, 1, 1, 2])
    cast = Cast(rng, members, producers, brokers)
    changes = rng.choice(PLOTS)(cast)
    for name, share, plots in _SUBJECTS:
        own = random.Random(f"{name} {seed}")
        if own.random() < share:
            plot = own.choice(plots) if len(plots) > 1 else plots[0]
            changes = plot(Cast(own, members, producers, brokers))
    drawn = {
        "seed": seed,
        "members": members,
        "producers": producers,
        "brokers": brokers,
        "queues": rng.choice([1, 2, 2, 4]),
        "messages": rng.choice([5, 10, 20]),
        "keys": rng.choice([1, 3, 8]),
        "burst": rng.choice([1, 5, 20]),
        "retries": RETRIES,
        "seconds": rng.choice([5.0, 10.0, 20.0]),
        "handling": rng.choice([0.0, 0.01, 0.5, 2.0]),
        "settings": {
            "order": rng.choice(["queue", "key"]),
            "batch_size": rng.choice([1, 1, 1, 3]),
            "max_reconsume_times": rng.choice([None, None, None, 2]),
            "concurrency": rng.choice([1, 2, 4, 8]),
            "commit_interval": rng.choice([5.0, 5.0, 1.0, 0.3]),
            "max_suspend": rng.choice([2.0, 10.0, 60.0]),
            "max_span": rng.choice([1_000_000, 1_000_000, 3, 10]),
            "pull_threshold": rng.choice([1000, 1000, 1000, 4]),
            "pull_batch": rng.choice([32, 32, 3]),
        },
        "failing": rng.choice([0.0, 0.0, 0.1, 0.3]),
        "slow": rng.choice([0.0, 0.0, 0.0, 0.1]),
        "unwanted": rng.choice([0.0, 0.0, 0.0, 0.3]),
        "stuck": rng.choice([0.0, 0.0, 0.0, 15.0, 40.0]),
        "storm": 0.0,
        "keyless": rng.choice([0.0, 0.0, 0.0, 0.2]),
        "bodies": rng.choice([64, 64, 2]),
        "poison": 0.0,
        "killers": 0,
        "fixed": 0.0,
        "secrets": "",
        "sent_again": 0.0,
        "index": 0.0,
        "joins": 0.0,
    }
    drawn |= _handlers(rng)
    settings = drawn["settings"] | changes.pop("settings", {})
    drawn |= changes
    if drawn["manual"]:
        drawn["plain"] = True  # what is named done and kept at once would be neither
    if drawn["engine"] != "process":
        drawn["dying"] = 0.0
    elif drawn["killers"]:
        drawn |= {"engine": "thread", "dying": 0.0}  # they are to end more than a worker
    if settings["order"] == "queue":
        settings = {name: value for name, value in settings.items() if name not in _BY_KEY}
    drawn["settings"] = tuple(settings.items())
    acts = _acts_of_programs(cast)
    faults = [*drawn.get("faults", ()), *([] if drawn["secrets"] else acts)]
    if not drawn["secrets"] and (copies := copies_beside(seed, members, drawn["seconds"])):
        faults += copies.pop("faults")
        drawn |= copies
    drawn["faults"] = tuple(sorted(faults, key=lambda fault: fault.at))
    return Scenario(**drawn)


def _handlers(rng):
    """What the handlers are like."""
    engine = rng.choice(["thread"] * 6 + ["async"] * 3 + ["process"])
    return {
        "engine": engine,
        "plain": rng.random() < 0.5,
        "manual": rng.choice([0.0, 0.0, 0.0, 0.0, 0.5, 1.0]),
        "dying": rng.choice([0.05, 0.3]) if engine == "process" else 0.0,
        "extending": rng.choice([0.0, 0.0, 0.0, 0.0, 0.1, 0.5]),
    }


def _acts_of_programs(cast):
    """Now and then a member's program pauses its consumer, or seeks, beside all else."""
    rng = cast.rng
    return [
        cast.fault(kind, rng.uniform(2, 25))
        for kind in ("program pause", "seek")
        if rng.random() < 0.06
    ]
