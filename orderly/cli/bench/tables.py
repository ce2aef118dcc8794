"""A measurement as tables: the figures, where the time went, and the verdict. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from orderly.bench.figures import Consumed, Rate, Sent, Span, Where
from orderly.bench.histogram import Times
from orderly.bench.verdict import verdict_of
from orderly.cli.bench.document import scaled
from orderly.cli.output import Table

Row = tuple[str, ...]
Cell = Callable[[Span], str | None]


def tables_of(spans: Mapping[str, Span]) -> list[Table]:
    """The figures, then the shares; a column for each span."""
    headings = ("figure", *spans)
    figures = [
        (name, *(cell(span) for span in spans.values()))
        for name, cell in _FIGURES
        if any(cell(span) is not None for span in spans.values())
    ]
    shares = [
        (kind.value, *(_share(span, kind) for span in spans.values()))
        for kind in Where
        if any(kind in span.where for span in spans.values())
    ]
    return [Table(headings, figures), Table(("where time goes", *spans), shares)]


def verdict_lines(spans: Mapping[str, Span]) -> list[str]:
    """For each span what bounds it, and what to try."""
    found = {name: verdict_of(span) for name, span in spans.items()}
    return [f"{name}: bound by {v.bound}: {v.why}. Try: {v.next}." for name, v in found.items()]


def _share(span: Span, kind: Where) -> str | None:
    share = span.where.get(kind)
    return None if share is None else f"{share:.1%}"


def _of_sent(cell: Callable[[Sent], str | None]) -> Cell:
    return lambda span: None if span.sent is None else cell(span.sent)


def _of_consumed(cell: Callable[[Consumed], str | None]) -> Cell:
    return lambda span: None if span.consumed is None else cell(span.consumed)


def _seconds(span: Span) -> str:
    return f"{span.seconds:.2f}" if span.ended == "done" else f"{span.seconds:.2f} ({span.ended})"


def _side(span: Span) -> Sent | Consumed:
    side = span.consumed or span.sent
    assert side is not None
    return side


def _mean(span: Span) -> str:
    side = _side(span)
    return f"{side.rate.mean:.0f}"


def _mega(span: Span) -> str:
    side = _side(span)
    each = side.bytes / max(side.messages, 1) / 1e6
    return f"{scaled(side.rate, each).mean:.2f}"


def _spread(span: Span) -> str:
    rate: Rate = _side(span).rate
    return f"{rate.minimum:.0f} / {rate.median:.0f} / {rate.maximum:.0f}"


def _times(times: Times | None) -> str | None:
    if times is None:
        return None
    return " / ".join(_short(seconds * 1000) for seconds in times_of(times))


def _short(number: float) -> str:
    """Three digits, or all before the point."""
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def times_of(times: Times) -> Sequence[float]:
    """What a line shows of it."""
    return times.p50, times.p90, times.p99, times.max


def _errors(errors: Mapping[str, int]) -> str:
    return ", ".join(f"{kind}: {count}" for kind, count in sorted(errors.items())) or "none"


def _per_100k(span: Span) -> str | None:
    return None if span.cpu_per_100k is None else f"{span.cpu_per_100k:.2f}"


def _one(seconds: float | None) -> str | None:
    return None if seconds is None else f"{seconds:.2f}"


def _order(found: Consumed) -> str:
    return f"{found.inversions} / {found.repeats} / {found.lost}"


_FIGURES: tuple[tuple[str, Cell], ...] = (
    ("messages", lambda span: str(_side(span).messages)),
    ("seconds", _seconds),
    ("messages/s", _mean),
    ("  slowest/median/fastest stretch", _spread),
    ("MB/s", _mega),
    ("acknowledged after, ms (p50/90/99/max)", _of_sent(lambda s: _times(s.latency))),
    ("send requests answered", _of_sent(lambda s: str(s.requests))),
    ("  messages each", _of_sent(lambda s: f"{s.messages / max(s.requests, 1):.1f}")),
    ("  round trip, ms (p50/90/99/max)", _of_sent(lambda s: _times(s.round_trip))),
    ("send requests that failed", _of_sent(lambda s: _errors(s.failed_requests))),
    ("messages that failed", _of_sent(lambda s: _errors(s.failed))),
    ("send to handler, ms (p50/90/99/max)", _of_consumed(lambda c: _times(c.latency))),
    ("start to first message, s", _of_consumed(lambda c: _one(c.first_after))),
    ("pulls that brought messages", _of_consumed(lambda c: str(c.pulls))),
    ("  messages each", _of_consumed(lambda c: f"{c.messages / max(c.pulls, 1):.1f}")),
    ("  round trip, ms (p50/90/99/max)", _of_consumed(lambda c: _times(c.round_trip))),
    ("commits of offsets", _of_consumed(lambda c: str(c.commits))),
    ("  each, ms (p50/90/99/max)", _of_consumed(lambda c: _times(c.commit_time))),
    ("pulls and commits that failed", _of_consumed(lambda c: _errors(c.failed_requests))),
    ("out of order / repeated / lost", _of_consumed(_order)),
    ("CPU seconds of this process", lambda span: f"{span.cpu:.2f}"),
    ("  for 100000 messages", _per_100k),
    ("memory of this process, MiB", lambda span: f"{span.rss / 2**20:.0f}"),
)
