"""`orderly backlog check`: a verdict on groups, for machines that watch."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import click

from orderly.cli.backlog.measuring import Pace, measure, pace_options
from orderly.cli.backlog.verdict_line import verdict_line
from orderly.cli.command import OrderlyCommand
from orderly.cli.output import OF_BACKLOGS, CommandOutput, Format, format_options, show
from orderly.cli.selection import Names, groups_options
from orderly.cli.settings import CommonOptions, common_options, settings_of
from orderly.cli.terminal import discard_stdout, failure_text, tell
from orderly.errors import OrderlyError
from orderly.monitoring.backlog.snapshot import Snapshot
from orderly.monitoring.backlog.states import Verdict, severity
from orderly.monitoring.backlog.thresholds import (
    MEASURES,
    Judgement,
    Measure,
    NotOkReason,
    Thresholds,
    judge,
)
from orderly.monitoring.backlog_json import finite
from orderly.monitoring.texts import Column, ColumnKind, iso_time

SCHEMA = "orderly.backlog-check/v2"
F = TypeVar("F", bound=Callable[..., Any])
SUFFIXES = {
    Measure.BACKLOG: "",
    Measure.HEAD_AGE: "-age",
    Measure.DRAIN_ETA: "-eta",
    Measure.RETENTION_ETA: "-retention",
    Measure.PARKED: "-parked",
    Measure.DEAD: "-dead",
    Measure.LOST: "-lost",
}
"""What follows --warn and --crit."""


def threshold_options(command: F) -> F:
    """Add --warn, --crit, --warn-age and so on; their values are in `limits` by parameter name."""
    for measured, suffix in reversed(SUFFIXES.items()):
        about = MEASURES[measured]
        for word, verdict in (("crit", "CRITICAL"), ("warn", "WARNING")):
            command = click.option(
                f"--{word}{suffix}",
                metavar="RANGE",
                help=f"{verdict}: {about.help}, in {about.unit}.",
            )(command)
    return command


def _parameter(word: str, measured: Measure) -> str:
    return f"{word}{SUFFIXES[measured]}".replace("-", "_")


def thresholds_of(limits: dict[str, str | None]) -> Thresholds:
    """The thresholds that the options give.

    Raises:
        ConfigError: one that is malformed.
    """
    warn, crit = (
        {
            measured: text
            for measured in Measure
            if (text := limits[_parameter(word, measured)]) is not None
        }
        for word in ("warn", "crit")
    )
    return Thresholds.parse(
        {str(name): text for name, text in warn.items()},
        {str(name): text for name, text in crit.items()},
    )


# --- where nothing could be measured --------------------------------------------------------------


class PluginCommand(OrderlyCommand):
    """A command that prints its verdict on stdout even if it fails: who watches reads no stderr."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Read the words; a mistake in them is a verdict, too."""
        try:
            return super().make_context(info_name, args, parent, **extra)
        except (click.ClickException, OrderlyError) as error:
            _say_unknown(error, "nagios")
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Run it."""
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, BrokenPipeError):
            raise
        except (Exception, KeyboardInterrupt) as error:
            _say_unknown(error, ctx.params["output"])
            raise


def _say_unknown(error: BaseException, output: str) -> None:
    """Print why there is no verdict, in the format that was asked for; CSV has no place for it."""
    text = failure_text(error, debug=False)
    judgement = Judgement(Verdict.UNKNOWN, (NotOkReason(Verdict.UNKNOWN, "", text),), ())
    nothing = Snapshot(time.time(), 0.0, 0.0, "", {}, {})
    if output in ("json", "yaml"):
        show(_answer(nothing, judgement), Format(output), CommonOptions())
    elif output != "csv":
        try:
            tell(("# " if output == "prometheus" else "") + verdict_line(judgement, ()))
        except BrokenPipeError:
            discard_stdout()


EXAMPLES = """\b
Examples:
  orderly backlog check shipping --warn 1000 --crit 10000 --crit-age 15m
  orderly backlog check shipping --samples 3 --crit-eta 1h    # rates need 3 samples
  orderly backlog check 'ship*' --fail-on critical --quiet    # in CI
"""


@click.command(cls=PluginCommand, epilog=EXAMPLES)
@groups_options(required=True)
@threshold_options
@click.option(
    "--fail-on",
    type=click.Choice(["warning", "critical"]),
    help="For CI: exit 1 if the verdict is this or worse, else 0. UNKNOWN stays 3.",
)
@click.option(
    "-q",
    "--quiet",
    is_flag=True,
    help="Print no verdict, only set the exit code; say why if nothing could be measured.",
)
@pace_options
@format_options(*OF_BACKLOGS, default="nagios")
@common_options
@click.pass_context
def check(
    ctx: click.Context,
    /,
    *,
    names: Names,
    fail_on: str | None,
    quiet: bool,
    pace: Pace,
    form: Format,
    **limits: str | None,
) -> int:
    """Judge GROUP... (names or globs) in one line, for cron, Nagios, CI or a probe.

    The line is always printed: `ORDERLY UNKNOWN - …` if nothing could be measured.

    CRITICAL wins over UNKNOWN, and UNKNOWN over WARNING. By default, parked keys and dead letters
    are a WARNING and lost messages are CRITICAL; the range `~:` turns such a default off.

    RANGE is written as in Nagios: 10 or ~:10 alerts above 10, 10: below 10, 10:20 outside and
    @10:20 inside of the range. Write times as 90s, 5m, 2h or 1d.
    """
    settings, thresholds = settings_of(ctx), thresholds_of(limits)
    snapshot = measure(settings, names, pace, thresholds=thresholds)
    judgement = judge(list(snapshot.groups.values()), thresholds)
    if not quiet:
        show(_answer(snapshot, judgement), form, settings)
    return exit_code(judgement.verdict, fail_on)


def exit_code(verdict: Verdict, fail_on: str | None) -> int:
    """The verdict's own code; with `fail_on` 0 or 1, but what was not measured stays 3."""
    if fail_on is None or verdict is Verdict.UNKNOWN:
        return int(verdict)
    return int(severity(verdict) >= severity(Verdict[fail_on.upper()]))


_COLUMNS = (
    Column("group"),
    Column("measure"),
    Column("value", ColumnKind.NUMBER),
    Column("unit"),
    Column("warn"),
    Column("crit"),
)


def _answer(snapshot: Snapshot, judgement: Judgement) -> CommandOutput:
    rows = [
        (
            each.group,
            str(each.measure),
            each.value,
            MEASURES[each.measure].unit,
            each.warn,
            each.crit,
        )
        for each in judgement.figures
    ]
    return CommandOutput(
        _COLUMNS,
        rows,
        partial(_document, snapshot, judgement),
        partial(_metrics, snapshot),
        partial(verdict_line, judgement, list(snapshot.groups.values())),
    )


def _metrics(snapshot: Snapshot) -> str:
    from orderly.cli.backlog.listing import metrics  # noqa: PLC0415  only for prometheus

    return metrics(snapshot)


def _document(snapshot: Snapshot, judgement: Judgement) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "time": iso_time(snapshot.at),
        "verdict": judgement.verdict.name,
        "exit_code": int(judgement.verdict),
        "reasons": [
            {"verdict": reason.verdict.name, "group": reason.group, "text": reason.text}
            for reason in judgement.reasons
        ],
        "figures": [
            {
                "group": figure.group,
                "measure": str(figure.measure),
                "value": finite(figure.value),
                "unit": MEASURES[figure.measure].unit,
                "warn": figure.warn or None,
                "crit": figure.crit or None,
            }
            for figure in judgement.figures
        ],
    }
