"""A verdict as one line, as the Monitoring Plugins guidelines want it. Pure.

ORDERLY CRITICAL - shipping: head_age 889 seconds (range 5m) | 'backlog'=51;1000;10000;0 …
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from orderly.cli.output import plain
from orderly.monitoring.backlog.ranges import Range
from orderly.monitoring.backlog.snapshot import GroupStatus
from orderly.monitoring.backlog.thresholds import MEASURES, Figure, Judgement, Measure, queues_text
from orderly.monitoring.texts import counted, duration

_REASONS = 5  # a pager has few lines
_IN_TEXT = {ord("|"): r"\x7c"}  # which names may have, and which ends the text
_IN_LABEL = _IN_TEXT | {ord("'"): "''", ord("="): r"\x3d"}
_OF_MANY = (Measure.BACKLOG, Measure.HEAD_AGE)  # what is shown of each of several groups


def verdict_line(judgement: Judgement, groups: Sequence[GroupStatus]) -> str:
    """Write the line.

    Args:
        judgement: of the groups.
        groups: those judged.
    """
    text = _text(judgement, groups).translate(_IN_TEXT)
    data = " ".join(_performance(judgement, groups))
    return f"ORDERLY {judgement.verdict.name} - {text}" + (f" | {data}" if data else "")


def _text(judgement: Judgement, groups: Sequence[GroupStatus]) -> str:
    if not judgement.reasons:
        return "; ".join(map(_measured, groups[:_REASONS])) + _more(len(groups))
    reasons = [
        f"{reason.group}: {reason.text}" if reason.group else reason.text
        for reason in judgement.reasons[:_REASONS]
    ]
    return "; ".join(reasons) + _more(len(judgement.reasons))


def _more(count: int) -> str:
    return f"; and {count - _REASONS} more" if count > _REASONS else ""


def _measured(group: GroupStatus) -> str:
    sums = group.sums
    if sums.backlog is None:
        return f"{group.group}: {sums.state}, the backlog is not known"
    text = (
        f"{group.group}: backlog {counted(sums.backlog, 'message')} in {queues_text(sums.queues)}"
    )
    return text + (f", the oldest {duration(sums.head_age)} old" if sums.head_age else "")


def _performance(judgement: Judgement, groups: Sequence[GroupStatus]) -> Iterator[str]:
    alone = len(groups) == 1
    for figure in judgement.figures:
        if alone or figure.measure in _OF_MANY:
            label = str(figure.measure) if alone else f"{figure.group}.{figure.measure}"
            yield f"'{label.translate(_IN_LABEL)}'={_datum(figure)}"
    if alone:
        yield f"'unknown'={groups[0].sums.unknown};;;0;{groups[0].sums.queues}"


def _datum(figure: Figure) -> str:
    """value[unit];warn;crit;min. U is "not known" in the guidelines, which have no infinity."""
    about = MEASURES[figure.measure]
    known = figure.value is not None and math.isfinite(figure.value)
    value = plain(figure.value) + ("s" if about.duration else "") if known else "U"
    warn, crit = (_numeric(text, figure.measure) for text in (figure.warn, figure.crit))
    return f"{value};{warn};{crit};0"


def _numeric(text: str, measure: Measure) -> str:
    """A range in plain numbers: tools that draw performance data know no durations."""
    if not text:
        return ""
    limits = Range.parse(text, duration=MEASURES[measure].duration)
    low = {0.0: "", -math.inf: "~:"}.get(limits.low, f"{plain(limits.low)}:")
    high = "" if math.isinf(limits.high) else plain(limits.high)
    return ("@" if limits.inside else "") + (low or ("" if high else "0:")) + high
