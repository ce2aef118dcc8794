"""From counts to findings: what selectors give, how many queues to take, what to say. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from orderly.foreign_text import escaped, hidden
from orderly.monitoring.skew.advice import advice
from orderly.monitoring.skew.inflow import Basis, Inflow
from orderly.monitoring.skew.keys import TOP, KeySkew
from orderly.monitoring.skew.what_if import at_work, worth_telling
from orderly.spark.jobs.skew.counted import Counted
from orderly.spark.jobs.skew.evenness import concentration, gini
from orderly.spark.jobs.skew.findings import Findings
from orderly.spark.jobs.skew.recommending import Recommendation, recommend
from orderly.spark.jobs.skew.what_if import WhatIf, by_key, by_no_key, outcome

NO_KEYS: tuple[str, ...] = ("No message that was read has a sharding key.",)


def findings(counted: Counted, order: str, *, redact: bool) -> Findings:
    """Work out all that counts say.

    Args:
        counted: exact counts.
        order: of the group that consumes, or "".
        redact: whether keys are to be hashes.
    """
    show = hidden if redact else str
    by_keys = list(by_key(counted))
    now = at_work(each for each in by_keys if each.queues == counted.present)
    by_keys = worth_telling(by_keys, now)
    recommended, said = None, NO_KEYS
    if now is not None:
        recommended = _recommended(counted, by_keys, now)
        said = _advice(counted, by_keys, recommended, (order, show))
    head = [replace(key, key=show(key.key)) for key in counted.head]
    return Findings(
        counted=replace(counted, head=head),
        gini=gini(counted.sizes),
        curve=concentration(counted.sizes) if counted.sizes else (),
        what_if=[*by_keys, *by_no_key(counted)],
        now=now,
        recommendation=recommended,
        advice=said,
    )


def _recommended(counted: Counted, by_keys: Sequence[WhatIf], now: WhatIf) -> Recommendation:
    tried = [outcome(counted, each) for each in by_keys if each.selector == now.selector]
    return recommend(outcome(counted, now), tried, counted.top_share)


def _advice(
    counted: Counted,
    by_keys: Sequence[WhatIf],
    recommended: Recommendation,
    told: tuple[str, Callable[[str], str]],
) -> tuple[str, ...]:
    """As `orderly skew` says it, of exact counts; only the recommended number is spoken of."""
    order, show = told
    wanted = {counted.present, recommended.queues}
    keys = KeySkew(
        messages=counted.messages,
        keyless=counted.messages - counted.keyed,
        keys=counted.keys,
        top=tuple(counted.head[:TOP]),
        splits=counted.splits,
        queues=counted.present,
        outcomes=tuple(outcome(counted, each) for each in by_keys if each.queues in wanted),
    )
    loads = {queue: load.messages for queue, load in counted.queues.items()}
    inflow = Inflow(Basis.STORED, None, loads)
    said = advice(inflow, keys, order, lambda key: escaped(show(key)), sampled=False)
    return (recommended.why, *said)
