"""What benchmarks of several parts share: their command line, their broker, and their tables."""

import argparse

from orderly.testing import EmbeddedBroker


def arguments(title, parts):
    """Parse the command line: which of `parts`, how often, where, and in which form."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--only", type=_among(parts), default=list(parts), help="parts, by commas")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds")
    parser.add_argument("--quick", action="store_true", help="one short round: does it work?")
    parser.add_argument("--namesrv", default="", help="measure there instead of on a local broker")
    return parser.parse_args()


def _among(parts):
    def names(text):
        given = text.split(",")
        if unknown := set(given) - set(parts):
            raise argparse.ArgumentTypeError(f"no part {unknown}; there are {', '.join(parts)}")
        return given

    return names


def long_running_broker():
    """A local broker; the embedded one starts with the fast-starting compiler only."""
    return EmbeddedBroker(java_options=["-XX:TieredStopAtLevel=4", "-Xmx1g"])


def tables(report):
    """The report's parts, ratios and goals, line by line."""
    for part in report["parts"].values():
        yield from ("", *_table(f"{part['title']} ({part['unit']})", part["sides"]))
    if report["ratios"]:
        yield from ("", *_table("ratios within a round", report["ratios"]))
    yield ""
    yield from (f"{'met ' if met else 'MISSED'}  {goal}" for goal, met in report["goals"].items())


def _table(title, spreads):
    yield f"{title:72}{'median':>12}{'min':>12}{'max':>12}"
    for name, each in spreads.items():
        digits = 0 if each["median"] >= 100 else 2
        values = (each[column] for column in ("median", "min", "max"))
        yield f"  {name:70}" + "".join(f"{value:12,.{digits}f}" for value in values)
