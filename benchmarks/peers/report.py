"""One run as JSON, and as text for a terminal."""

from benchmarks.peers.goals import SUFFIXES, goal_of, judged

# What is no ratio: name in the JSON -> (part, side, attribute).
ABSOLUTE = {
    "rss_mib": ("consume", "ours", "rss_mib"),
    "first_message_seconds": ("consume", "ours", "first_message"),
    "inversions": ("inversions", "ours", "inversions"),
}
UNITS = {
    "rate": "messages/s",
    "cpu": "CPU s / 100,000",
    "rss_mib": "MiB",
    "first_message": "first message, s",
    "p50": "p50, ms",
    "p90": "p90, ms",
    "p99": "p99, ms",
    "messages": "messages",
    "inversions": "inversions",
    "repeats": "stored twice",
}


def as_json(measured, about, commands):
    """The report.

    Args:
        measured: a list of `parts.Measured`.
        about: the machine and the versions.
        commands: what ran.
    """
    spreads = {}
    for one in measured:
        named = one.ratios() | _absolute(one)
        spreads |= {name + SUFFIXES[one.size]: values for name, values in named.items()}
    figures = {name: None if s is None else s["median"] for name, s in spreads.items()}
    return {
        **figures,
        "ranges": spreads,
        "goals": judged(figures),
        "parts": [_part(one) for one in measured],
        "about": about,
        "commands": list(dict.fromkeys(commands)),
    }


def _absolute(one):
    sides = one.spreads()
    return {
        name: sides.get(side, {}).get(column)
        for name, (part, side, column) in ABSOLUTE.items()
        if part == one.part.name
    }


def _part(one):
    return {
        "name": one.part.name,
        "title": one.part.title,
        "body_bytes": one.size,
        "rounds": max((len(runs) for runs in one.runs.values()), default=0),
        "sides": one.spreads(),
        "missing": one.missing,
    }


def as_text(report):
    """The same for a terminal."""
    lines = []
    for part in report["parts"]:
        lines += ["", f"{part['title']}; {part['body_bytes']} bytes, {part['rounds']} rounds"]
        lines += [f"  {line}" for line in _rows(part)]
    lines += ["", f"{'':34}{'median':>10}{'min':>10}{'max':>10}   goal"]
    lines += [_figure(name, values, report) for name, values in report["ranges"].items()]
    return "\n".join(lines)


def _rows(part):
    for side, columns in part["sides"].items():
        texts = (f"{UNITS[name]} {with_range(spread)}" for name, spread in columns.items())
        yield f"{side:14}" + "   ".join(texts)
    for side, reason in part["missing"].items():
        yield f"{side:14}MISSING: {reason}"


def _figure(name, values, report):
    if values is None:
        return f"{name:34}{'not measured':>30}"
    columns = "".join(f"{values[column]:10,.2f}" for column in ("median", "min", "max"))
    goal = goal_of(name)
    verdict = f"{goal} {'met' if report['goals'][name] else 'MISSED'}" if goal else ""
    return f"{name:34}{columns}   {verdict}"


def with_range(spread):
    """A median with its range, with as many digits as say something."""
    whole = spread["median"] >= 100 or isinstance(spread["max"], int)
    digits = 0 if whole else 2
    median, least, most = (f"{spread[name]:,.{digits}f}" for name in ("median", "min", "max"))
    return f"{median} [{least}\N{EN DASH}{most}]"
