"""Saving offsets: renewed first, compared, asked once a broker, and never over somebody else's."""

from dataclasses import replace
from functools import partial
from threading import Event, Thread

import pytest

from orderly.client.broker import PullResult, PullStatus
from orderly.clock import now
from orderly.consumer import broker_threads
from orderly.consumer.offsets import LOOK_AGAIN, OffsetSaver
from orderly.errors import BrokerBusy, LockLost, OrderlyError, RequestTimeout, TopicNotFound
from orderly.ordering.broker_calls import AppendRecord, OffsetReset
from orderly.ordering.crashes import Crashes, Suspects
from orderly.ordering.fence import Landmark
from orderly.ordering.owned_queue import Drop
from orderly.ordering.ownership import NotOnRecord
from orderly.ordering.results import Disposition
from tests.support.messages import QUEUE, message
from tests.support.waiting import eventually


class Memory:
    """Remembers what is finished ahead in a list; `lost`: another owner was confirmed."""

    def __init__(self):
        self.noted, self.lost, self.closed, self.token = [], False, False, 1
        self.begun = []
        self.topic = True

    def due(self, low, previous_low, runs, kept, crashes, *, sent_again=(), fence):
        return (low, runs, kept) not in self.noted[-1:]

    def remember(
        self,
        low,
        previous_low,
        runs,
        kept,
        crashes,
        *,
        sent_again=(),
        fence,
        closed=False,
        refresh=False,
    ):
        if not (closed or refresh or self.due(low, previous_low, runs, kept, crashes, fence=fence)):
            return
        if self.lost:
            raise LockLost("another owner was confirmed")
        if not self.topic:
            raise TopicNotFound("no state topic", code=17)
        yield AppendRecord(QUEUE, b"")
        self.noted.append((low, runs, kept))
        self.closed = closed

    def begin_generation(self, low, kept, window=()):
        yield AppendRecord(QUEUE, b"")
        self.begun.append((low, kept))


@pytest.fixture
def queues(cluster):
    return cluster.route("orders").read_queues()


@pytest.fixture
def saver(session):
    return OffsetSaver(session)


@pytest.fixture
def records(session):
    """State records are stored, whatever they say, behind an acquire and a confirm record."""
    perform, found = session.perform, []

    def performing(call):
        if isinstance(call, AppendRecord):
            found.append(call)
            return len(found) + 1
        return perform(call)

    session.perform = performing
    return found


def progressed(held, offset=1):
    held.owned.pulled([message(n, queue=held.queue) for n in range(offset)], offset)
    while (batch := held.owned.take(9, now())) is not None:
        held.owned.finish(batch, Disposition.COMMIT, now())
    return held


def kinds(cluster):
    return [call[0] for call in cluster.calls]


@pytest.fixture
def by_key(hold, records, cluster):
    """A queue by key: 0 is in work, 1 and 2 are finished ahead of it."""
    cluster.offsets[QUEUE] = 0
    held = hold(by_key=True, max_runs=9, memory=Memory())
    held.owned.pulled([message(n) for n in range(3)], 3, None, ["a", "b", "c"])
    batches = [held.owned.take(1, now()) for _ in range(3)]
    for batch in batches[1:]:
        held.owned.finish(batch, Disposition.COMMIT, now())
    return held, batches[0]


@pytest.mark.parametrize(
    ("error", "saved"), [(BrokerBusy("busy", code=2), 3), (RequestTimeout("late"), 0)], ids=repr
)
def test_a_busy_broker_is_asked_for_the_next_queue_and_a_silent_one_is_not(
    error, saved, saver, hold, queues, cluster
):
    for queue in queues:
        progressed(hold(queue))
    cluster.fail["save", queues[0]] = error
    saver.save_all()
    assert cluster.offsets == dict.fromkeys(queues[1 : 1 + saved], 1)


def test_after_the_deadline_no_further_queue_is_begun(saver, hold, cluster):
    progressed(hold())
    saver.save_all(deadline=now())
    assert cluster.calls == []


# --- parked keys, and recording at once --------------------------------------------------------


def test_recording_renews_compares_remembers_and_saves_now(saver, by_key, cluster):
    held, slow = by_key
    held.owned.parking.note("b", offset=1, position=0, size=9)
    held.owned.finish(slow, Disposition.COMMIT, now())
    saver.record(held)
    assert kinds(cluster)[-3:] == ["lock", "query", "save"]
    assert held.memory.noted == [(3, (), held.owned.parking.kept)]
    assert cluster.offsets[QUEUE] == 3


def record_while_one_is_under_way(saver, held, session, keys, *, fails=False):
    """Record a key; while that is under way, record each of the others, on a thread of its own."""
    perform, under_way, go_on = session.perform, Event(), Event()

    def slowly(call):
        if isinstance(call, AppendRecord) and not go_on.is_set():
            under_way.set()
            assert go_on.wait(20)
            if fails:
                raise RequestTimeout("made by the test")
        if isinstance(call, AppendRecord):
            with held.lock:  # another key is done meanwhile: there is always something to record
                another = held.owned.next_pull
                held.owned.pulled([message(another)], another + 1, None, [f"good {another}"])
                held.owned.finish(held.owned.take(1, now()), Disposition.COMMIT, now())
        return perform(call)

    def record(position, key):
        with held.lock:
            held.owned.parking.note(key, offset=position + 1, position=position, size=9)
        begun.append(key)
        try:
            saver.record(held)
        except RequestTimeout:
            failed.append(key)

    session.perform, begun, failed = slowly, [], []
    threads = [Thread(target=record, args=each) for each in enumerate(keys)]
    threads[0].start()
    assert under_way.wait(20)
    for thread in threads[1:]:
        thread.start()
    eventually(lambda: len(begun) == len(keys))
    eventually(lambda: held.commits_begun == 1)
    go_on.set()
    for thread in threads:
        thread.join(20)
    return failed


def test_calls_that_wait_for_a_record_share_the_next_one(saver, by_key, session):
    held, _ = by_key
    failed = record_while_one_is_under_way(saver, held, session, "abcdefgh")
    assert failed == []
    noted = [[parked.key for parked in kept.parked] for _, _, kept in held.memory.noted]
    assert noted[0] == ["a"], "one that is under way covers nobody who came later"
    assert noted[-1] == list("abcdefgh")
    assert len(noted) < 8


def test_a_record_that_failed_covers_nobody(saver, by_key, session):
    held, _ = by_key
    assert record_while_one_is_under_way(saver, held, session, "abc", fails=True) == ["a"]
    assert [parked.key for parked in held.memory.noted[-1][2].parked] == list("abc")


@pytest.mark.parametrize("step", [("lock", "broker-a"), ("query", QUEUE)])
def test_a_record_that_failed_is_told(saver, by_key, cluster, step):
    held, _ = by_key
    cluster.fail[step] = RequestTimeout("late")
    with pytest.raises(RequestTimeout):
        saver.record(held)
    assert (held.memory.noted, held.owned.dropped) == ([], None)


@pytest.mark.parametrize("how", ["lock refused", "lost", "another offset", "another owner"])
def test_a_queue_that_is_lost_is_told_and_given_up(saver, by_key, cluster, how):
    held, _ = by_key
    if how == "lock refused":
        cluster.locks[QUEUE] = "other@2"
    elif how == "lost":
        held.owned.drop(Drop.LOST)
    elif how == "another offset":
        cluster.offsets[QUEUE] = 50
    else:
        held.memory.lost = True
    with pytest.raises(LockLost):
        saver.record(held)
    assert held.memory.noted == []
    assert held.owned.dropped in {Drop.LOST, Drop.FENCED}


def test_another_owner_on_record_gives_the_queue_up(saver, by_key, cluster):
    held, slow = by_key
    held.owned.finish(slow, Disposition.COMMIT, now())
    held.memory.lost = True
    saver.save_all()
    assert held.owned.dropped is Drop.FENCED
    assert "save" not in kinds(cluster)


def test_a_clean_end_is_noted_also_if_nothing_is_new(saver, hold, records, cluster):
    held = hold(by_key=True, memory=Memory())
    held.owned.drop(Drop.REVOKED)
    saver.hand_on(held)
    assert held.memory.closed
    assert kinds(cluster)[-1] == "unlock"


# --- together, when broadcasting -----------------------------------------------------------------


def test_all_offsets_are_saved_by_one_write(session, hold, queues):
    writes = []
    session.store_together = writes.append
    for queue in queues[:2]:
        progressed(hold(queue))
    saver = OffsetSaver(session)
    saver.save_all()
    saver.save_all()
    assert writes == [dict.fromkeys(queues[:2], 1)]


def test_a_write_that_failed_is_done_again(session, hold, failure):
    def fails(offsets):
        raise failure

    session.store_together = fails
    held = progressed(hold())
    saver = OffsetSaver(session)
    saver.save_all()
    writes = []
    session.store_together = writes.append
    saver.save_all()
    assert writes == [{held.queue: 1}]


def test_what_is_known_of_crashes_goes_on_record_and_a_clean_end_forgets_it(
    saver, hold, records, cluster
):
    noted = []

    class Noting(Memory):
        def remember(self, *content, **how):
            noted.append((content[-1], how.get("closed", False)))
            yield from super().remember(*content, **how)

    cluster.offsets[QUEUE] = 0
    held = hold(by_key=True, memory=Noting(), suspects=Suspects(Crashes(1), 0, 5))
    saver.save(held)
    assert noted == [(Crashes(1), False)]
    with held.lock:
        held.owned.drop(Drop.REVOKED)
    saver.hand_on(held)
    assert noted[-1] == (Crashes(), True)


# --- a topic that was made anew ----------------------------------------------------------------

LONG_AGO = Landmark(7, 0)  # all that the cluster shows was stored later


def test_a_topic_that_was_made_anew_gives_the_queue_up_at_its_minimum(
    saver, hold, session, cluster, attention, caplog
):
    held = progressed(hold(), 3)
    held.owned.fence.landmark = LONG_AGO
    saver.save_all()
    assert (held.owned.dropped, held.lost.is_set(), attention) == (Drop.RECREATED, True, [1])
    assert cluster.offsets == {QUEUE: 0}
    assert "topic.recreated" in caplog.text
    assert "former=0 start=0" in caplog.text
    cluster.calls.clear()
    saver.save_all()
    saver.hand_on(held)
    assert kinds(cluster) == ["unlock"], "what is held of it is of the former one"
    session.remove(held)
    assert session.known[QUEUE].offset == 0
    assert session.known[QUEUE].landmark is None


def test_by_key_it_goes_on_record_with_the_next_owner(saver, by_key, cluster, caplog):
    held, slow = by_key
    held.owned.parking.note("b", offset=1, position=0, size=9)
    held.owned.finish(slow, Disposition.COMMIT, now())
    held.owned.fence.landmark = LONG_AGO
    del cluster.offsets[QUEUE]
    saver.save_all()
    assert (held.owned.dropped, held.memory.noted) == (Drop.RECREATED, [])
    assert held.memory.begun == [(0, held.owned.parking.kept)]
    assert caplog.text.count("topic.recreated") == 1, "the next owner finds it on record"


def test_find_out_asks_first_and_renews_the_lock_before_it_writes(saver, hold, cluster):
    held = hold()
    held.owned.fence.landmark = LONG_AGO
    with pytest.raises(LockLost):
        saver.find_out(held)
    asked = ["peek", "min", "peek"]
    assert kinds(cluster) == [*asked, "lock", *asked, "query", "save"]
    assert held.owned.dropped is Drop.RECREATED


def test_find_out_holds_no_lock_while_it_asks_and_the_queues_while_it_writes(
    saver, hold, session, cluster
):
    """A commit that hangs must not keep the other queues' pulls, nor the other way round."""
    held, seen = hold(), []
    held.owned.fence.landmark = LONG_AGO

    def look(step):
        seen.append((step, session.locking("broker-a").locked(), held.saving.locked()))

    for step in ("min", "lock", "query", "save"):
        cluster.during[step] = partial(look, step)
    with pytest.raises(LockLost):
        saver.find_out(held)
    assert seen == [
        ("min", False, False),
        ("lock", True, False),
        ("min", False, True),
        ("query", False, True),
        ("save", False, True),
    ]


def test_find_out_does_not_wait_for_a_commit_where_there_is_no_proof(saver, hold, cluster):
    held = hold()
    held.owned.fence.landmark = Landmark(7, 2000)  # as the cluster shows it
    with held.saving:
        saver.find_out(held)
    assert (kinds(cluster), held.owned.dropped) == (["peek"], None)


def test_find_out_records_it_with_the_keys_that_are_parked(saver, by_key, cluster):
    held, _ = by_key
    held.owned.parking.note("b", offset=1, position=0, size=9)
    held.owned.fence.landmark = LONG_AGO
    with pytest.raises(LockLost):
        saver.find_out(held)
    assert held.memory.begun == [(0, held.owned.parking.kept)]
    assert (held.owned.dropped, cluster.offsets[QUEUE]) == (Drop.RECREATED, 0)


def test_find_out_writes_nothing_for_a_queue_that_is_somebody_elses(saver, hold, cluster):
    held = hold()
    held.owned.fence.landmark = LONG_AGO
    cluster.locks[QUEUE] = "other@2"
    with pytest.raises(LockLost):
        saver.find_out(held)
    assert cluster.offsets == {}


def test_find_out_without_a_proof_changes_nothing(saver, hold, cluster):
    held = hold()
    saver.find_out(held)
    assert (cluster.calls, held.owned.dropped) == ([], None)


def test_find_out_notes_the_message_that_was_passed_last_where_none_is_known(saver, hold, cluster):
    """A filter left out all that came, so no pull has brought one."""
    held = hold()
    held.owned.pulled([], 5)
    saver.find_out(held)
    assert (kinds(cluster), held.owned.fence.landmark) == (["peek"], Landmark(4, 2000))
    assert held.owned.dropped is None


# --- a reset that is told while progress is saved ------------------------------------------------


@pytest.fixture
def told(cluster):
    """The next question is answered with a reset to 7, and no other one is."""
    pull_now = cluster.pull_now

    def once(query, *, master=False):
        cluster.pull_now = pull_now
        cluster.offsets[QUEUE] = 7
        return PullResult(PullStatus.OFFSET_ILLEGAL, [], 7, 0, 10, 0)

    cluster.pull_now = once


@pytest.mark.parametrize("closing", [False, True])
def test_a_reset_that_a_commit_was_told_of_is_obeyed(closing, saver, hold, cluster, told, caplog):
    """The offset vanished, so the commit looks at the queue; it is the one who is told."""
    held = progressed(hold(), 3)
    held.owned.fence.landmark = LONG_AGO
    if closing:
        held.owned.drop(Drop.REVOKED)
        with pytest.raises(OffsetReset):
            saver.hand_on(held)
        saver.hand_on(held)
        assert kinds(cluster)[-1] == "unlock"
    else:
        saver.save_all()
        assert held.owned.dropped is Drop.OFFSET_ILLEGAL
    assert (held.owned.offset, cluster.offsets[QUEUE]) == (7, 7)
    assert caplog.text.count("offset.illegal") == 1


@pytest.mark.parametrize("closing", [False, True])
def test_progress_is_not_written_over_a_reset_that_a_pull_was_told_of_meanwhile(
    closing, saver, hold, cluster
):
    cluster.offsets[QUEUE] = 0
    held = progressed(hold(), 3)

    def reset():
        cluster.during.clear()
        held.owned.restart_at(0, Drop.OFFSET_ILLEGAL)

    cluster.during["query"] = reset
    if closing:
        held.owned.drop(Drop.REVOKED)
        with pytest.raises(OrderlyError, match="meanwhile"):
            saver.hand_on(held)
        saver.hand_on(held)
    else:
        saver.save_all()
    assert cluster.offsets[QUEUE] == 0
    assert "save" not in kinds(cluster)


# --- a queue that is idle ----------------------------------------------------------------------


@pytest.fixture
def idle(hold, cluster, saver):
    """All is saved, and the broker's offset was compared just now."""
    held = progressed(hold(), 3)
    saver.save_all()
    cluster.calls.clear()
    return held


def minute_passes(held):
    held.compared_at -= LOOK_AGAIN


def test_a_comparison_that_failed_is_done_again_in_the_next_round(saver, idle, cluster):
    minute_passes(idle)
    cluster.fail["query"] = RequestTimeout("late")
    saver.save_all()
    cluster.fail.clear()
    cluster.calls.clear()
    saver.save_all()
    assert kinds(cluster) == ["lock", "query"]


def test_a_queue_that_is_being_given_up_is_not_compared(saver, idle, cluster):
    minute_passes(idle)
    idle.owned.drop(Drop.REVOKED)
    saver.save_all()
    assert cluster.calls == []


# --- a state topic that is missing -------------------------------------------------------------


def test_without_a_state_topic_the_offset_is_saved_and_the_next_round_asked_for(
    saver, by_key, cluster, attention
):
    held, slow = by_key
    held.owned.finish(slow, Disposition.COMMIT, now())
    held.memory.topic = False
    saver.save_all()
    assert (cluster.offsets[QUEUE], held.owned.dropped, attention) == (3, None, [1])


def test_without_a_state_topic_a_record_is_no_success(saver, by_key):
    """What was parked must not be taken for recorded."""
    held, _ = by_key
    held.memory.topic = False
    with pytest.raises(NotOnRecord):
        saver.record(held)
    assert held.owned.dropped is None


def test_without_a_state_topic_a_queue_is_handed_on_with_its_offset(saver, by_key, cluster, caplog):
    held, slow = by_key
    held.owned.finish(slow, Disposition.COMMIT, now())
    held.owned.drop(Drop.REVOKED)
    held.memory.topic = False
    saver.hand_on(held)
    assert (cluster.offsets[QUEUE], kinds(cluster)[-1]) == (3, "unlock")
    assert "does not exist" in caplog.text


def test_a_broker_that_hangs_holds_up_no_others_offsets_not_even_the_last_time(
    saver, hold, cluster, monkeypatch
):
    monkeypatch.setattr(broker_threads, "PATIENCE", 0.0)
    elsewhere, go_on = replace(QUEUE, broker_name="broker-b"), Event()
    hangs, goes_on = hold(), hold(elsewhere)
    update_offset = cluster.update_offset

    def update(group, queue, offset):
        assert queue != QUEUE or go_on.wait(60)
        update_offset(group, queue, offset)

    cluster.update_offset = update
    hangs.owned.offset = goes_on.owned.offset = 5
    saver.save_all()
    eventually(lambda: cluster.offsets.get(elsewhere) == 5)
    goes_on.owned.offset = 6
    saver.save_all(now() + 30)
    assert cluster.offsets == {elsewhere: 6}
    go_on.set()
    assert saver.steps.wait(60)
