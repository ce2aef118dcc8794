"""What a run writes: into benchmarks/README.md figures and goals, into figures.md all the rest."""

from benchmarks.peers.goals import SUFFIXES, goal_of
from benchmarks.peers.report import UNITS, with_range

BEGIN = "<!-- peers: begin; written by `make bench` -->"
END = "<!-- peers: end -->"
PLOT = "peers.svg"


def inserted(page, part):
    """The page with what stood between the markers replaced.

    Raises:
        ValueError: a marker is missing, or they are the wrong way round.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page needs the line {BEGIN!r} and after it the line {END!r}")
    return f"{before}{BEGIN}\n\n{part.strip()}\n\n{END}{after}"


def headline(report):
    """The figures with their goals, and the picture.

    Args:
        report: see `report.as_json`.
    """
    when = f"Measured {report['about'].get('date', '')}; medians, the range in brackets."
    picture = f"![Each ratio beside its goal]({PLOT})"
    return "\n\n".join([when, "\n".join(_figures(report)), picture])


def details(report, command):
    """The machine, what every side measured, and what ran.

    Args:
        report: see `report.as_json`.
        command: what made it.
    """
    blocks = [
        ["<!-- block: parsed -->", "```sh", command, "```"],
        _about(report["about"]),
    ]
    for part in report["parts"]:
        title = f"{_capital(part['title'])}: bodies of {part['body_bytes']:,} bytes"
        blocks += [[f"**{title}**; rounds: {part['rounds']}"], _sides(part)]
    blocks += [
        ["What ran (NAME: a fresh topic or group; SIZE: 128 or 1024):"],
        ["```text", *report["commands"], "```"],
    ]
    return "\n\n".join("\n".join(block) for block in blocks)


def _about(about):
    return ["| | |", "|---|---|", *(f"| {name} | {text} |" for name, text in about.items())]


def _figures(report):
    ranges, verdicts = report["ranges"], report["goals"]
    names = list(dict.fromkeys(name.removesuffix("_1k") for name in ranges))
    rows = ["| figure | goal | 128 B | 1 KiB |", "|---|---|---|---|"]
    for name in names:
        cells = [_cell(ranges, verdicts, name + suffix) for suffix in SUFFIXES.values()]
        rows.append(f"| `{name}` | {goal_of(name) or ''} | {' | '.join(cells)} |")
    return rows


def _cell(ranges, verdicts, name):
    if name not in ranges:
        return ""
    if ranges[name] is None:
        return "not measured"
    verdict = {True: "met", False: "**missed**", None: ""}[verdicts.get(name)]
    return f"{with_range(ranges[name])} {verdict}".strip()


def _sides(part):
    columns = next(iter(part["sides"].values()), {})
    rows = [
        "| side | " + " | ".join(UNITS[name] for name in columns) + " |",
        "|---|" + "---|" * len(columns),
    ]
    for side, spreads in part["sides"].items():
        rows.append(f"| {side} | " + " | ".join(map(with_range, spreads.values())) + " |")
    rows += ["", *(f"Missing: {side}: {reason}" for side, reason in part["missing"].items())]
    return rows if part["missing"] else rows[:-1]


def _capital(text):
    return text[0].upper() + text[1:]
