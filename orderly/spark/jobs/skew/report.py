"""The report of a topic's skew: what to do, loads, hot keys, what-ifs with their bounds."""

from __future__ import annotations

from orderly.monitoring.reporting.charts import Bar, Stick, bars, columns
from orderly.monitoring.reporting.words import count, plural, share
from orderly.monitoring.skew.keys import TOP
from orderly.selectors import KEYED
from orderly.spark.jobs.origin import Origin
from orderly.spark.jobs.skew.findings import Findings
from orderly.spark.jobs.skew.plots import concentration_plot, what_if_plot
from orderly.spark.jobs.skew.what_if import WhatIf
from orderly.spark.reporting.contents import (
    Cell,
    Column,
    Fact,
    Kind,
    Plot,
    Report,
    Section,
    Table,
)

_STICKS = 64  # queues side by side


def report(it: Findings, origin: Origin) -> Report:
    """Write it."""
    sections = [Section("What to do", "\n\n".join(it.advice)), _queues(it)]
    if it.now is not None:
        sections += [_keys(it), _what_if(it, it.now)]
    return Report(
        title=f"Skew of {it.counted.topic}",
        verdict=it.verdict,
        headline=it.headline,
        origin=origin,
        facts=_facts(it),
        sections=sections,
    )


def _facts(it: Findings) -> list[Fact]:
    load = it.load
    without = it.counted.messages - it.counted.keyed
    facts = [
        Fact("messages", count(it.counted.messages), f"{count(without)} without a key"),
        Fact("keys", count(it.counted.keys), f"{count(it.counted.splits)} in several queues"),
        Fact("top key", share(it.counted.top_share), "of the messages with a key"),
        Fact("Gini of keys", "–" if it.gini is None else f"{it.gini:.2f}", "0 is even"),  # noqa: RUF001  not known
    ]
    if load is not None:
        busiest = f"times the mean, {load.busiest.broker_name}/{load.busiest.queue_id}"
        facts.append(Fact("busiest queue", f"{load.max_over_mean:.2f}", busiest))
    if it.recommendation is not None:
        change = "recommended" if it.recommendation.change else "recommended: as now"
        facts.append(Fact("queues", count(it.recommendation.queues), change))
    return facts


def _queues(it: Findings) -> Section:
    loads = list(it.counted.queues.items())
    shown = [Stick(f"{queue.queue_id}", load.messages) for queue, load in loads[:_STICKS]]
    brokers = [queue.broker_name for queue, _ in loads[:_STICKS]]
    borders = [at for at in range(1, len(brokers)) if brokers[at] != brokers[at - 1]]
    below = f"queue, on {', '.join(dict.fromkeys(brokers))}"
    plot = Plot(
        "Messages by queue; dashed: the mean",
        columns("load", shown, below, borders=borders),
        f"The first {len(shown)} of {len(loads):,} queues." * (len(shown) < len(loads)),
    )
    worst = sorted(loads, key=lambda each: -each[1].messages)[:TOP]
    rows: list[list[Cell]] = [
        [f"{queue.broker_name}/{queue.queue_id}", load.messages,
         load.messages / max(1, it.counted.messages), load.messages - load.keyed, load.lost]
        for queue, load in worst
    ]  # fmt: skip
    heads = [Column("Queue"), Column("Messages", Kind.COUNT), Column("Share", Kind.SHARE),
             Column("Without a key", Kind.COUNT), Column("Lost", Kind.COUNT)]  # fmt: skip
    return Section(
        "Queues", plots=[plot], table=Table(heads, rows, len(loads) - len(rows), "queue")
    )


def _keys(it: Findings) -> Section:
    top = it.counted.head[:TOP]
    shown = [
        Bar(key.key, key.least, f"{count(key.least)}, {share(key.least / it.counted.keyed)}")
        for key in top[:12]
    ]
    heads = [Column("Key", Kind.KEY), Column("Messages", Kind.COUNT), Column("Share", Kind.SHARE),
             Column("Most of them in"), Column("In several queues")]  # fmt: skip
    rows = [
        [key.key, key.least, key.least / it.counted.keyed,
         f"{key.queue.broker_name}/{key.queue.queue_id}", "yes" if key.split else "no"]
        for key in top
    ]  # fmt: skip
    return Section(
        "Keys",
        f"Gini {it.gini or 0:.2f}: 0 if all keys had equally many messages, near 1 if one had all."
        " All keys stand in the table keys.",
        plots=[
            Plot("The most frequent keys, messages", bars("keys", shown)),
            Plot(
                "How few keys have how much; dashed: all alike",
                concentration_plot("concentration", it.curve),
            ),
        ],
        table=Table(heads, rows, it.counted.keys - len(rows), "key"),
    )


def _what_if(it: Findings, now: WhatIf) -> Section:
    lines = {
        name: points
        for name in KEYED
        if (
            points := [
                (each.queues, each.skew.max_over_mean)
                for each in it.what_if
                if each.selector == name
            ]
        )
    }
    of_now = [each for each in it.what_if if each.selector == now.selector]
    lines["pinned"] = [(each.queues, each.pinned or 0.0) for each in of_now]
    lines["bound"] = [(each.queues, each.bound) for each in of_now]
    text = (
        f"Producers use {now.selector} (it explains {share(1 - (now.moved or 0))} of the places)."
        " Bound: the least that the busiest queue can get, whatever selector, because a key lies in"
        " one queue. Pinned: the most frequent keys, up to 1,000, put into queues by hand, the"
        " largest first. Moved: share of the messages of keys that would change their queue."
        " single_queue and round_robin do not look at keys; round_robin keeps no order."
    )
    heads = [Column("Queues", Kind.COUNT), Column("Selector"), Column("Busiest/mean", Kind.NUMBER),
             Column("Bound", Kind.NUMBER), Column("Pinned", Kind.NUMBER),
             Column("Busiest has", Kind.SHARE), Column("Gini", Kind.NUMBER),
             Column("Moved", Kind.SHARE)]  # fmt: skip
    chosen = _chosen(it, now)
    rows = [
        [each.queues, each.selector, each.skew.max_over_mean, each.bound, each.pinned,
         each.skew.top_share, each.skew.gini, each.moved]
        for each in it.what_if
        if each.queues in chosen
    ]  # fmt: skip
    rows.sort(key=lambda row: (row[0], row[2]))
    plot = Plot(
        "The busiest queue, times the mean, by number of queues; even is near the bound",
        what_if_plot("what-if", lines, now.queues),
        f"All of {plural(len(it.what_if), 'trial')} stand in the table what_if.",
    )
    left_out = len(it.what_if) - len(rows)
    return Section("What if", text, [plot], Table(heads, rows, left_out, "trial"))


def _chosen(it: Findings, now: WhatIf) -> set[int]:
    """The numbers of queues in the table: now, half, twice, four times, and the recommended."""
    wanted = {now.queues, now.queues // 2, now.queues * 2, now.queues * 4}
    return wanted | ({it.recommendation.queues} if it.recommendation else set())
