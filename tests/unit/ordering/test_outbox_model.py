"""The outbox against a model of a queue: random submits, answers, losses, clocks, cancellations.

The model broker stores what it is sent, sometimes without answering, and sometimes stores an
unanswered batch late, as long as it keeps a request in its queue. What is asserted is only what a
user can see: the log of the queue, and what became of each message.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from orderly.errors import BrokerError, PrecedingSendFailed, SendFailed
from orderly.model import MessageQueue
from orderly.ordering.outbox import Outbox, OutboxBatch, OutboxEntry, OutboxRules, SendVerdict

RULES = OutboxRules(
    retries=2, retry_backoff=0.1, hold_failed_key=5.0, batch_messages=4, batch_bytes=100, settle=0.2
)
LANES = st.sampled_from(["a", "b", "c", None])
ERROR = BrokerError("refused", code=13)
ONE_BY_ONE = (SendVerdict.BAD_MESSAGE, SendVerdict.FAILED_BATCH, SendVerdict.NO_BATCH)


@dataclass(slots=True, eq=False)
class Sent(OutboxEntry):
    number: int = 0
    bad: bool = False
    cancelled: bool = False
    outcome: list[object] = field(default_factory=list)
    born_as: set[int] = field(default_factory=set)
    stored_as: list[int] = field(default_factory=list)  # how many copies there might be before

    def __repr__(self) -> str:
        return f"{self.lane}{self.number}"


class OutboxModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.box: Outbox[Sent] = Outbox(MessageQueue("T", "b", 0), RULES)
        self.now = 100.0
        self.sent: list[Sent] = []
        self.log: list[Sent] = []
        self.flying: OutboxBatch[Sent] | None = None
        self.as_sent: list[tuple[Sent, int]] = []  # what flies, each with its copies before
        self.late: list[tuple[Sent, int]] | None = None  # unanswered, still in the broker's queue
        self.late_until = 0.0
        self.closed: dict[str, float] = {}  # lane -> when it opens
        self.most = RULES.batch_messages
        self.alone: list[Sent] = []  # members of a batch that was refused for one bad message
        self.retry: tuple[list[Sent], int, float] | None = None  # what, attempt, not before

    # ---- the producer's side

    @rule(
        lane=LANES,
        size=st.integers(1, 120),
        sys_flag=st.sampled_from([0, 0, 0, 1]),
        patience=st.sampled_from([0.5, 3.0, 50.0]),
        bad=st.sampled_from([False, False, False, True]),
    )
    def submit(self, lane, size, sys_flag, patience, bad):
        number = len(self.sent)
        entry = Sent(lane, size, sys_flag, self.now + patience, number=number, bad=bad)
        self.sent.append(entry)
        failed = self.box.submit(entry, self.now)
        if lane is not None and self.now < self.closed.get(lane, 0.0):
            assert [type(error) for _, error in failed] == [PrecedingSendFailed]
        else:
            assert failed == [], "only a failure of the same key may refuse a message"
        self.settle_failures(failed)

    @rule(lanes=st.lists(LANES, min_size=2, max_size=6), bad=st.integers(0, 11))
    def submit_some(self, lanes, bad):
        for number, lane in enumerate(lanes):
            self.submit(lane=lane, size=20, sys_flag=0, patience=50.0, bad=number == bad)

    @rule(lane=st.sampled_from(["a", "b", "c"]))
    def resume(self, lane):
        self.box.resume(lane)
        self.closed.pop(lane, None)

    @rule(number=st.integers(0, 60))
    def cancel(self, number):
        if number < len(self.sent) and not self.sent[number].outcome:
            entry = self.sent[number]
            entry.cancelled = not self.was_claimed(entry)

    def was_claimed(self, entry: Sent) -> bool:
        return "claimed" in entry.outcome

    def claim(self, entry: Sent) -> bool:
        if self.was_claimed(entry):
            return True
        if entry.cancelled:
            entry.outcome.append("cancelled")
            return False
        entry.outcome.append("claimed")
        return True

    @rule()
    def send(self):
        self.settle_failures(self.box.expire(self.now))
        self.now_or_never_late()
        batch = self.box.take(self.now, self.claim)
        if batch is None:
            return
        assert self.flying is None, "two batches of one queue in flight"
        self.check_limits(batch)
        self.check_retry(batch)
        self.check_alone(batch)
        self.flying = batch
        self.as_sent = [(entry, entry.copies) for entry in batch.entries]
        for entry in batch.entries:
            entry.born_as.add(batch.born(self.now))

    def store(self, sent: list[tuple[Sent, int]]) -> None:
        for entry, copies in sent:
            self.log.append(entry)
            entry.stored_as.append(copies)

    def check_limits(self, batch: OutboxBatch[Sent]) -> None:
        assert 1 <= len(batch.entries) <= self.most
        size = sum(entry.size for entry in batch.entries)
        assert size <= RULES.batch_bytes or len(batch.entries) == 1
        assert len({entry.sys_flag for entry in batch.entries}) == 1
        assert all(entry.deadline > self.now for entry in batch.entries) or batch.attempt > 1

    def check_retry(self, batch: OutboxBatch[Sent]) -> None:
        if self.retry is None:
            assert batch.attempt == 1
            return
        entries, attempt, not_before = self.retry
        assert (list(batch.entries), batch.attempt) == (entries, attempt)
        assert self.now >= not_before - 1e-9
        self.retry = None

    def check_alone(self, batch: OutboxBatch[Sent]) -> None:
        self.alone = [entry for entry in self.alone if not self.is_done(entry)]
        if self.alone:
            assert list(batch.entries) == [self.alone[0]], "the split batch comes first, one by one"

    # ---- the broker's side

    @precondition(lambda self: self.flying)
    @rule(late=st.booleans())
    def store_and_answer(self, late):
        batch, self.flying = self.flying, None
        if any(entry.bad for entry in batch.entries):
            self.fail(batch, SendVerdict.BAD_MESSAGE)
            return
        self.store(self.as_sent)
        if late:
            self.land_late_copy()
        assert self.box.stored(batch)
        for entry in batch.entries:
            entry.outcome.append("stored")

    @precondition(lambda self: self.flying and len(self.flying.entries) > 1)
    @rule()
    def take_no_batch(self):
        batch, self.flying = self.flying, None
        self.most = 1
        self.fail(batch, SendVerdict.NO_BATCH)

    @precondition(lambda self: self.flying and len(self.flying.entries) > 1)
    @rule(what=st.sampled_from(["stored", "late", "lost"]))
    def fail_without_a_reason(self, what):
        self.end_in_doubt(what, SendVerdict.FAILED_BATCH)

    @precondition(lambda self: self.flying)
    @rule()
    def flow_control(self):
        batch, self.flying = self.flying, None
        self.fail(batch, SendVerdict.NOT_STORED)

    @precondition(lambda self: self.flying)
    @rule(what=st.sampled_from(["stored", "late", "lost"]))
    def no_answer(self, what):
        self.end_in_doubt(what, SendVerdict.UNKNOWN)

    def end_in_doubt(self, what: str, verdict: SendVerdict) -> None:
        batch, self.flying = self.flying, None
        good = not any(entry.bad for entry in batch.entries)
        self.land_late_copy()
        if what == "stored" and good:
            self.store(self.as_sent)
        self.fail(batch, verdict)
        if what == "late" and good:
            self.late, self.late_until = self.as_sent, self.now + RULES.settle

    @precondition(lambda self: self.flying)
    @rule()
    def refuse_all(self):
        batch, self.flying = self.flying, None
        self.fail(batch, SendVerdict.REFUSED)

    @precondition(lambda self: self.late)
    @rule()
    def land_late_copy(self):
        if self.late:
            self.store(self.late)
        self.late = None

    def now_or_never_late(self) -> None:
        if self.late and self.now >= self.late_until:
            self.late = None  # the broker dropped it from its queue

    def fail(self, batch: OutboxBatch[Sent], verdict: SendVerdict) -> None:
        failed = self.box.refused(batch, verdict, ERROR, self.now)
        self.expect_retry(batch, verdict, failed)
        self.settle_failures(failed)

    def expect_retry(self, batch: OutboxBatch[Sent], verdict: SendVerdict, failed) -> None:
        if verdict in ONE_BY_ONE and len(batch.entries) > 1:
            assert not failed, "the good messages of a refused batch get their chance"
            self.alone = list(batch.entries)
        elif verdict in (SendVerdict.BAD_MESSAGE, SendVerdict.REFUSED):
            assert {entry for entry, _ in failed} >= set(batch.entries)
        elif not failed:
            assert batch.attempt <= RULES.retries
            wait = RULES.retry_backoff * 2 ** (batch.attempt - 1)
            wait = max(wait, RULES.settle) if verdict is SendVerdict.UNKNOWN else wait
            self.retry = (list(batch.entries), batch.attempt + 1, self.now + wait)

    # ---- time

    @rule(seconds=st.sampled_from([0.05, 0.2, 0.3, 1.0, 4.0, 6.0]))
    def advance(self, seconds):
        if self.late and self.now + seconds > self.late_until:
            self.late = None
        self.now += seconds

    @rule()
    def expire(self):
        self.settle_failures(self.box.expire(self.now))

    @rule()
    def wake_when_told(self):
        wake = self.box.wake_at()
        if wake is not None and wake > self.now:
            self.advance(wake - self.now)
            self.send()

    # ---- what must hold

    def settle_failures(self, failed) -> None:
        lost: dict[str, int] = {}
        for entry, error in failed:
            entry.outcome.append(error)
            if entry.lane is not None and type(error) is SendFailed:
                lost.setdefault(entry.lane, entry.number)
                self.closed[entry.lane] = self.now + RULES.hold_failed_key
        for entry in self.sent:
            if entry.lane in lost and entry.number > lost[entry.lane]:
                assert self.is_done(entry), f"{entry} was left behind the failed {lost}"

    def is_done(self, entry: Sent) -> bool:
        ends = [end for end in entry.outcome if end != "claimed"]
        assert len(ends) <= 1, f"{entry} completed twice: {ends}"
        return bool(ends) or entry.cancelled

    @invariant()
    def every_message_completes_at_most_once(self):
        for entry in self.sent:
            self.is_done(entry)

    @invariant()
    def first_copies_of_a_key_are_in_the_order_of_their_submission(self):
        seen: dict[str, list[int]] = defaultdict(list)
        for entry in self.log:
            if entry.lane is not None and entry.number not in seen[entry.lane]:
                seen[entry.lane].append(entry.number)
        assert all(numbers == sorted(numbers) for numbers in seen.values()), seen

    @invariant()
    def what_is_not_sent_is_not_in_the_log(self):
        for entry in self.log:
            assert "cancelled" not in entry.outcome
            assert not any(isinstance(end, PrecedingSendFailed) for end in entry.outcome)
            assert not entry.bad

    @invariant()
    def copies_of_a_message_have_one_born_time_and_different_marks(self):
        for entry in self.sent:
            assert len(entry.born_as) <= 1, f"{entry}: {entry.born_as}"
            assert len(set(entry.stored_as)) == len(entry.stored_as), f"{entry}: {entry.stored_as}"

    @invariant()
    def what_is_stored_is_in_the_log(self):
        logged = set(map(id, self.log))
        assert all(id(entry) in logged for entry in self.sent if "stored" in entry.outcome)

    def teardown(self):
        for _ in range(10 * len(self.sent) + 10):
            if self.box.empty:
                break
            if self.flying is not None:
                self.store_and_answer(late=False)
            else:
                self.advance(1.0)
                self.send()
        assert self.box.empty, "with a broker that answers, everything ends"
        assert all(self.is_done(entry) for entry in self.sent)


TestOutboxModel = OutboxModel.TestCase
TestOutboxModel.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
