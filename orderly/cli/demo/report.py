"""What the demo measured, as rows for a reader, as JSON, and as an exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orderly.cli import NOT_MEASURED
from orderly.cli.demo.consuming import ConsumeLog
from orderly.cli.demo.flights import FlightEvent
from orderly.cli.demo.sending import SendLog
from orderly.cli.demo.trouble import FAILURES, FailingMessage
from orderly.monitoring.backlog import Totals
from orderly.testing.oracle import Delivered, Sent, Verdict, judge

SCHEMA = "orderly.demo/v1"


@dataclass(frozen=True, slots=True)
class Report:
    """The whole run. `backlog` is what the brokers say was left when both consumers had closed."""

    kinds: Counter[str]
    sent: SendLog
    consumed: ConsumeLog
    failing: FailingMessage
    backlog: Totals
    verdict: Verdict
    seconds: float

    @property
    def exit_code(self) -> int:
        """0: in order and complete. 1: not so. 3: the backlog at the end is not known."""
        if not self.verdict.ok or self.sent.failed or self.backlog.backlog:
            return 1
        return NOT_MEASURED if self.backlog.unknown else 0

    @property
    def out_of_order(self) -> int:
        """Deliveries that came before or after their turn."""
        return self.verdict.disorder + self.verdict.skipped + self.verdict.rewound

    @property
    def redelivered(self) -> int:
        """Repeats beyond those of the message that failed on purpose."""
        planned = max(0, min(len(self.failing.attempts), len(FAILURES) + 1) - 1)
        return self.verdict.duplicates - planned

    def verdict_text(self) -> str:
        """One line."""
        verdict = self.verdict
        if self.exit_code == 0:
            return (
                f"In order: all {verdict.sent:,} events of {verdict.keys:,} aircraft were handled"
                " in the order in which they were sent; none was lost"
            )
        if self.exit_code == NOT_MEASURED:
            return "Not measured: the brokers did not say what is left in every queue"
        return (
            f"Not in order or not complete: {self.out_of_order:,} out of order,"
            f" {verdict.overlaps:,} two at once, {verdict.lost:,} lost,"
            f" {len(self.sent.failed):,} not sent, {verdict.unknown:,} never sent but delivered,"
            f" {self.backlog.backlog or 0:,} left at the broker"
        )

    def rows(self) -> list[tuple[str, str]]:
        """What and how much, for the final table."""
        verdict, take_over = self.verdict, self.consumed.take_over
        kinds = ", ".join(f"{count:,} {kind}s" for kind, count in sorted(self.kinds.items()))
        rows = [
            ("events", f"{verdict.sent:,} ({kinds}), {verdict.keys:,} keys (aircraft)"),
            ("sent", f"{self.sent.rate:,.0f}/s in {self.sent.seconds:.1f} s"),
            ("consumed", f"{self.consumed.rate:,.0f}/s in {self.consumed.seconds:.1f} s"),
            ("queues", self._queue_text()),
            ("out of order", f"{self.out_of_order:,}"),
            ("two at once", f"{verdict.overlaps:,}"),
            ("lost", f"{verdict.lost:,}"),
            ("duplicates", self._duplicate_text()),
            ("backlog left", "not known" if self.backlog.unknown else f"{self.backlog.backlog:,}"),
            ("failing message", self.failing.story()),
            ("take-over", take_over.story() if take_over else "consumer B never held a queue"),
            ("time in all", f"{self.seconds:.1f} s"),
        ]
        rows += [("not sent", text) for text in list(self.sent.failed.values())[:3]]
        return rows + [("violation", text) for text in verdict.examples]

    def _duplicate_text(self) -> str:
        return (
            f"{self.redelivered:,} delivered again, {self.verdict.log_duplicates:,} stored twice"
            f" (besides the {len(FAILURES)} planned retries)"
        )

    def _queue_text(self) -> str:
        counts = self.sent.per_queue()
        fullest, emptiest = max(counts, key=counts.__getitem__), min(counts, key=counts.__getitem__)
        return (
            f"{len(counts)} used; fullest {fullest} with {counts[fullest]:,},"
            f" emptiest {emptiest} with {counts[emptiest]:,}"
        )

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        verdict, take_over = self.verdict, self.consumed.take_over
        return {
            "schema": SCHEMA,
            "ok": self.exit_code == 0,
            "exit_code": self.exit_code,
            "verdict": self.verdict_text(),
            "events": verdict.sent,
            "keys": verdict.keys,
            "not_sent": len(self.sent.failed),
            "delivered": verdict.delivered,
            "lost": verdict.lost,
            "out_of_order": self.out_of_order,
            "overlaps": verdict.overlaps,
            "unknown": verdict.unknown,
            "duplicates": self.redelivered,
            "planned_retries": verdict.duplicates - self.redelivered,
            "log_duplicates": verdict.log_duplicates,
            "backlog": None if self.backlog.unknown else self.backlog.backlog,
            "sent_per_second": round(self.sent.rate, 1),
            "consumed_per_second": round(self.consumed.rate, 1),
            "per_queue": {str(queue): n for queue, n in sorted(self.sent.per_queue().items())},
            "take_over_seconds": take_over.seconds if take_over else None,
            "failing_message": self.failing.story(),
            "seconds": round(self.seconds, 3),
            "examples": verdict.examples,
        }


def judge_run(
    events: Sequence[FlightEvent],
    sent: SendLog,
    consumed: ConsumeLog,
    failing: FailingMessage,
    *,
    backlog: Totals,
    seconds: float,
) -> Report:
    """Hand the records to the oracle, and put everything together."""
    records = [
        Sent(events[number].tail, number, queue, offset)
        for number, (queue, offset) in sorted(sent.stored.items())
    ]
    delivered = [
        Delivered(d.key, d.number, d.queue, d.offset, d.succeeded, d.started, d.ended)
        for d in consumed.deliveries
    ]
    kinds = Counter(events[number].kind for number in sent.stored)
    verdict = judge(records, delivered)
    return Report(kinds, sent, consumed, failing, backlog, verdict, seconds)
