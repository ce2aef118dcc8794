"""Saving offsets: renewed first, compared, asked once a broker, and never over somebody else's."""

from dataclasses import replace
from functools import partial
from threading import Event

import pytest

from orderly.consumer.owning import side_by_side
from orderly.consumer.owning.offset_saver import LOOK_AGAIN, OffsetSaver
from orderly.consumer.session import now
from orderly.errors import BrokerBusy, LockLost, RequestTimeout, TopicNotFound
from orderly.ordering.calls import AppendRecord
from orderly.ordering.crashes.crashes import Crashes
from orderly.ordering.crashes.suspects import Suspects
from orderly.ordering.drop import Drop
from orderly.ordering.generation import Landmark
from orderly.ordering.parking.keys import NOTHING_KEPT, Kept, ParkedKey
from orderly.ordering.results import Disposition
from orderly.ordering.state.committing import NotOnRecord
from orderly.ordering.state.content import Remembered
from orderly.ordering.state.memory import Memory as RealMemory
from orderly.protocol.state_record import decode_record
from tests.support.messages import QUEUE, message
from tests.support.waiting import eventually

LOCK = ("lock", "broker-a")


class Memory:
    """Remembers what is finished ahead in a list; `lost`: another owner was confirmed."""

    def __init__(self):
        self.noted, self.lost, self.closed, self.token = [], False, False, 1
        self.begun = []
        self.topic = True

    def due(self, low, previous_low, runs, kept, crashes, *, fence):
        return (low, runs, kept) not in self.noted[-1:]

    def remember(
        self, low, previous_low, runs, kept, crashes, *, fence, closed=False, refresh=False
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


def test_all_queues_of_a_broker_are_saved_after_one_renewal(saver, hold, queues, cluster):
    for place, queue in enumerate(queues):
        progressed(hold(queue), place + 1)
    saver.save_all()
    assert kinds(cluster).count("lock") == 1
    assert kinds(cluster)[:3] == ["route", "lock", "query"]
    assert cluster.offsets == {queue: place + 1 for place, queue in enumerate(queues)}


def test_what_is_saved_is_not_asked_about_again(saver, hold, cluster):
    progressed(hold())
    saver.save_all()
    cluster.calls.clear()
    saver.save_all()
    assert cluster.calls == []


def test_a_queue_whose_lock_is_refused_is_not_saved_and_the_others_are(
    saver, hold, queues, cluster
):
    first, second = progressed(hold(queues[0])), progressed(hold(queues[1]))
    cluster.locks[first.queue] = "other@2"
    saver.save_all()
    assert cluster.offsets == {second.queue: 1}
    assert first.lost.is_set()


def test_without_a_renewal_nothing_is_saved(saver, hold, cluster):
    held = progressed(hold())
    cluster.fail["lock"] = RequestTimeout("late")
    saver.save_all()
    assert kinds(cluster) == ["lock"]
    assert held.owned.dropped is None, "it may be ours still"


def test_somebody_elses_progress_gives_the_queue_up_and_is_not_overwritten(
    saver, hold, cluster, attention, caplog
):
    held = progressed(hold())
    cluster.offsets[QUEUE] = 50
    saver.save_all()
    assert (cluster.offsets[QUEUE], held.owned.dropped) == (50, Drop.FENCED)
    assert (held.lost.is_set(), attention) == (True, [1])
    assert "never wrote" in caplog.text
    saver.hand_on(held)
    assert cluster.offsets[QUEUE] == 50
    assert QUEUE not in cluster.locks, "the lock was ours, and is given back"


def test_an_answer_that_was_lost_is_not_taken_for_somebody_elses_progress(saver, hold, cluster):
    held = progressed(hold())

    def stores_it_and_fails():
        cluster.offsets[QUEUE] = 1
        cluster.during.clear()
        raise RequestTimeout("its answer was lost")

    cluster.during["save"] = stores_it_and_fails
    saver.save_all()
    saver.save_all()
    assert (held.owned.dropped, held.owned.unsaved(now())) == (None, None)


def test_a_broker_that_is_busy_is_asked_for_the_next_queue(saver, hold, queues, cluster):
    for queue in queues[:2]:
        progressed(hold(queue))
    cluster.fail["save", queues[0]] = BrokerBusy("busy", code=2)
    saver.save_all()
    assert cluster.offsets == {queues[1]: 1}


def test_a_broker_that_hangs_holds_up_no_other(saver, hold, queues, cluster):
    elsewhere = replace(QUEUE, broker_name="broker-b")
    for queue in (*queues, elsewhere):
        progressed(hold(queue))
    cluster.fail["lock", "broker-a"] = RequestTimeout("it hangs")
    saver.save_all()
    assert cluster.offsets == {elsewhere: 1}
    assert kinds(cluster).count("lock") == 2


def test_after_the_deadline_no_further_queue_is_begun(saver, hold, cluster):
    progressed(hold())
    saver.save_all(deadline=now())
    assert cluster.calls == []


def test_a_queue_that_is_lost_during_the_renewal_is_not_saved(saver, hold, cluster):
    held = progressed(hold())
    cluster.during["lock"] = lambda: held.owned.drop(Drop.LOST)
    saver.save_all()
    assert kinds(cluster) == ["lock"]


def test_queues_released_by_another_thread_meanwhile_are_left_alone(saver, hold, session, cluster):
    """Not even their lock is asked for."""
    held = progressed(hold())
    held.owned.drop(Drop.REVOKED)
    saver.hand_on(held)
    session.remove(held)
    cluster.calls.clear()
    saver._save_of_broker([held], float("inf"))
    assert cluster.calls == []


# --- by key ------------------------------------------------------------------------------------


def test_what_is_finished_ahead_is_remembered_while_the_offset_stands(saver, by_key, cluster):
    held, _ = by_key
    saver.save_all()
    assert held.memory.noted == [(0, ((1, 3),), NOTHING_KEPT)]
    assert "save" not in kinds(cluster)
    cluster.calls.clear()
    saver.save_all()
    assert cluster.calls == [], "nothing is new"


def test_it_is_remembered_before_the_offset_is_saved(saver, by_key, cluster, records):
    held, slow = by_key
    held.owned.pulled([message(3), message(4)], 5, None, ["a", "b"])
    held.owned.finish(slow, Disposition.COMMIT, now())
    a = held.owned.take(1, now())
    assert a.key in {"a", "b"}
    order = []
    cluster.during["save"] = lambda: order.append(len(records))
    saver.save_all()
    assert (cluster.offsets[QUEUE], order) == (3, [1])


# --- parked keys, and recording at once --------------------------------------------------------


def test_parked_keys_are_remembered_with_the_offset(saver, by_key):
    held, _ = by_key
    saver.save_all()
    held.owned.parking.note("b", offset=1, position=0, size=9)
    saver.save_all()
    assert held.memory.noted[-1] == (
        0,
        ((1, 3),),
        Kept((ParkedKey("b", 1, 0, 1, 9, counted_to=2),)),
    )


def test_they_are_handed_on(saver, by_key):
    held, slow = by_key
    held.owned.parking.note("b", offset=1, position=0, size=9)
    held.owned.finish(slow, Disposition.COMMIT, now())
    held.owned.drop(Drop.REVOKED)
    saver.hand_on(held)
    assert held.memory.closed
    assert held.memory.noted[-1] == (3, (), held.owned.parking.kept)


def test_recording_renews_compares_remembers_and_saves_now(saver, by_key, cluster):
    held, slow = by_key
    held.owned.parking.note("b", offset=1, position=0, size=9)
    held.owned.finish(slow, Disposition.COMMIT, now())
    saver.record(held)
    assert kinds(cluster)[-3:] == ["lock", "query", "save"]
    assert held.memory.noted == [(3, (), held.owned.parking.kept)]
    assert cluster.offsets[QUEUE] == 3


def test_what_is_on_record_is_not_written_again(saver, by_key, cluster):
    held, _ = by_key
    saver.record(held)
    cluster.calls.clear()
    saver.record(held)
    assert kinds(cluster) == ["lock"]
    assert len(held.memory.noted) == 1


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


def test_a_queue_whose_lock_is_refused_at_the_end_is_neither_saved_nor_unlocked(
    saver, by_key, cluster
):
    held, slow = by_key
    held.owned.finish(slow, Disposition.COMMIT, now())
    held.owned.drop(Drop.REVOKED)
    cluster.locks[QUEUE] = "other@2"
    saver.hand_on(held)
    assert kinds(cluster) == ["lock"]
    assert (held.memory.noted, cluster.offsets[QUEUE]) == ([], 0)


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


def test_an_idle_queue_is_compared_once_a_minute(saver, idle, cluster):
    saver.save_all()
    assert cluster.calls == []
    minute_passes(idle)
    saver.save_all()
    assert kinds(cluster) == ["lock", "query"], "renewed, compared, and nothing is written"
    saver.save_all()
    assert kinds(cluster) == ["lock", "query"]


def test_a_comparison_that_failed_is_done_again_in_the_next_round(saver, idle, cluster):
    minute_passes(idle)
    cluster.fail["query"] = RequestTimeout("late")
    saver.save_all()
    cluster.fail.clear()
    cluster.calls.clear()
    saver.save_all()
    assert kinds(cluster) == ["lock", "query"]


def test_an_idle_queue_whose_topic_was_made_anew_is_given_up(saver, idle, cluster):
    idle.owned.fence.landmark = LONG_AGO
    del cluster.offsets[QUEUE]
    minute_passes(idle)
    saver.save_all()
    assert (idle.owned.dropped, cluster.offsets) == (Drop.RECREATED, {QUEUE: 0})


def test_an_offset_that_a_broker_forgot_of_an_idle_queue_is_committed_again(saver, idle, cluster):
    del cluster.offsets[QUEUE]
    minute_passes(idle)
    saver.save_all()
    assert (idle.owned.dropped, cluster.offsets) == (None, {QUEUE: 3})


def test_an_offset_that_somebody_set_for_an_idle_queue_is_noticed(saver, idle, cluster):
    cluster.offsets[QUEUE] = 1
    minute_passes(idle)
    saver.save_all()
    assert (idle.owned.dropped, cluster.offsets) == (Drop.FENCED, {QUEUE: 1})


def test_a_queue_that_is_being_given_up_is_not_compared(saver, idle, cluster):
    minute_passes(idle)
    idle.owned.drop(Drop.REVOKED)
    saver.save_all()
    assert cluster.calls == []


def test_by_key_the_first_landmark_of_an_idle_queue_goes_on_record(saver, hold, cluster, records):
    """Without it nobody could prove later that the topic was made anew."""
    cluster.offsets[QUEUE] = 0
    found = Remembered(0, 0)
    memory = RealMemory(QUEUE, "me@1", 0, confirm=1, epoch=1, found=found)
    held = hold(by_key=True, memory=memory)
    saver.save_all()
    assert records == []
    held.owned.pulled([message(0)], 1, None, ["a"])
    saver.save_all()
    saver.save_all()
    (entry,) = [decode_record(call.body) for call in records]
    assert (entry.landmark, entry.low) == ((0, 2000), 0)


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
    monkeypatch.setattr(side_by_side, "PATIENCE", 0.0)
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
