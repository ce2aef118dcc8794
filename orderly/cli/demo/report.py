"""What the demo measured, as rows for a reader, as JSON, and as an exit code."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from orderly.cli import NOT_MEASURED
from orderly.cli.demo.bad_record import Parking
from orderly.cli.demo.consuming import ConsumeLog
from orderly.cli.demo.sending import SendLog
from orderly.cli.demo.stream import Stream
from orderly.cli.demo.trouble import FAILURES, FailingMessage
from orderly.monitoring.backlog.snapshot import Sums
from orderly.testing.oracle import Delivered, Sent, Verdict, judge

SCHEMA = "orderly.demo/v1"


@dataclass(frozen=True, slots=True)
class Report:
    """The whole run. `backlog` is what the brokers say was left when all consumers had closed."""

    kinds: Counter[str]
    sent: SendLog
    consumed: ConsumeLog
    failing: FailingMessage
    parking: Parking
    backlog: Sums
    verdict: Verdict
    seconds: float

    @property
    def exit_code(self) -> int:
        """0: in order and complete. 1: not so. 3: the backlog at the end is not known."""
        replayed = self.parking.ok and self.parking.settled == self.replayed
        if not self.verdict.ok or self.sent.failed or self.backlog.backlog or not replayed:
            return 1
        return NOT_MEASURED if self.backlog.unknown else 0

    @property
    def out_of_order(self) -> int:
        """Deliveries that came before or after their turn."""
        return self.verdict.disorder + self.verdict.skipped + self.verdict.rewound

    @property
    def planned(self) -> int:
        """Tries of the two messages that failed on purpose, besides the one that succeeded."""
        few = max(0, min(len(self.failing.attempts), len(FAILURES) + 1) - 1)
        tries = [d for d in self.consumed.deliveries if d.number == self.parking.bad.number]
        return few + max(0, min(len(tries) - 1, sum(not d.succeeded for d in tries)))

    @property
    def redelivered(self) -> int:
        """Repeats beyond the planned ones."""
        return self.verdict.duplicates - self.planned

    @property
    def replayed(self) -> int:
        """Parked messages that a handler acknowledged when they were released."""
        done = (d.number for d in self.consumed.deliveries if d.replayed and d.succeeded)
        return len(set(done))

    @property
    def meanwhile(self) -> int:
        """Other aircraft's events that were handled between the parking and the release."""
        parking = self.parking
        if parking.parked_at is None or parking.released_at is None:
            return 0
        return sum(
            d.succeeded
            and d.key != parking.bad.key
            and parking.parked_at <= d.ended <= parking.released_at
            for d in self.consumed.deliveries
        )

    @property
    def parking_text(self) -> str:
        """What became of the bad record's aircraft."""
        return self.parking.story(replayed=self.replayed, meanwhile=self.meanwhile)

    def verdict_text(self) -> str:
        """One line."""
        verdict = self.verdict
        if self.exit_code == 0:
            return (
                f"In order: all {verdict.sent:,} events of {verdict.keys:,} aircraft were handled"
                f" in the order in which they were sent, the {self.replayed:,} that were parked"
                " too; none was lost"
            )
        if self.exit_code == NOT_MEASURED:
            return "Not measured: the brokers did not say what is left in every queue"
        return (
            f"Not in order or not complete: {self.out_of_order:,} out of order,"
            f" {verdict.overlaps:,} two at once, {verdict.lost:,} lost,"
            f" {len(self.sent.failed):,} not sent, {verdict.unknown:,} never sent but delivered,"
            f" {self.backlog.backlog or 0:,} left at the broker; parked: {self.parking_text}"
        )

    def rows(self) -> list[tuple[str, str]]:
        """What and how much, for the final table."""
        verdict, take_over = self.verdict, self.consumed.take_over
        kinds = ", ".join(f"{count:,} {kind}s" for kind, count in sorted(self.kinds.items()))
        rows = [
            ("events", f"{verdict.sent:,} ({kinds}), {verdict.keys:,} keys (aircraft)"),
            ("sent", f"{self.sent.rate:,.0f}/s in {self.sent.seconds:.1f} s"),
            ("consumed", f"{self.consumed.rate:,.0f}/s in {self.consumed.backlog[1]:.1f} s"),
            ("queues", self._queue_text()),
            ("out of order", f"{self.out_of_order:,}"),
            ("two at once", f"{verdict.overlaps:,}"),
            ("lost", f"{verdict.lost:,}"),
            ("duplicates", self._duplicate_text()),
            ("backlog left", "not known" if self.backlog.unknown else f"{self.backlog.backlog:,}"),
            ("failing message", self.failing.story()),
            ("bad record", self.parking_text),
            ("take-over", take_over.story() if take_over else "consumer B never held a queue"),
            ("time in all", f"{self.seconds:.1f} s"),
        ]
        rows += [("not sent", text) for text in list(self.sent.failed.values())[:3]]
        return rows + [("violation", text) for text in verdict.examples]

    def _duplicate_text(self) -> str:
        return (
            f"{self.redelivered:,} delivered again, {self.verdict.log_duplicates:,} stored twice"
            f" (besides the {self.planned} failures made on purpose)"
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
            "planned_retries": self.planned,
            "log_duplicates": verdict.log_duplicates,
            "backlog": None if self.backlog.unknown else self.backlog.backlog,
            "sent_per_second": round(self.sent.rate, 1),
            "consumed_per_second": round(self.consumed.rate, 1),
            "per_queue": self.sent.per_queue(),
            "take_over_seconds": take_over.seconds if take_over else None,
            "failing_message": self.failing.story(),
            "parked": {
                "key": self.parking.bad.key,
                "messages": self.parking.settled,
                "replayed": self.replayed,
                "seconds": self.parking.seconds,
                "others_meanwhile": self.meanwhile,
                "story": self.parking_text,
            },
            "seconds": round(self.seconds, 3),
            "examples": verdict.examples,
        }


def judge_run(
    stream: Stream,
    sent: SendLog,
    consumed: ConsumeLog,
    parking: Parking,
    *,
    backlog: Sums,
    seconds: float,
) -> Report:
    """Hand the records to the oracle, and put everything together.

    The consumers order by key, so each aircraft is judged by itself.
    """
    events = stream.events
    records = [
        Sent(events[number].tail, number, (queue, events[number].tail), offset)
        for number, (queue, offset) in sorted(sent.stored.items())
    ]
    delivered = [
        Delivered(d.key, d.number, (d.queue, d.key), d.offset, d.succeeded, d.started, d.ended)
        for d in sorted(consumed.deliveries, key=lambda d: d.started)
    ]
    kinds = Counter(events[number].kind for number in sent.stored)
    verdict = judge(records, delivered)
    return Report(kinds, sent, consumed, stream.failing, parking, backlog, verdict, seconds)
