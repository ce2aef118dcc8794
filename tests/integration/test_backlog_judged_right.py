"""What other monitors get wrong from a group's offsets, judged right on a real broker.

Which test is about which pitfall stands in docs/how-to/monitoring.md.
"""

import threading
import time

import pytest

from orderly import ConsumerConfig, ConsumeResult, OrderlyConsumer
from orderly.monitoring.backlog.evaluate import Backlog
from orderly.monitoring.backlog.rules import EvaluationSettings
from orderly.monitoring.backlog.states import QueueState
from orderly.monitoring.collecting.details import Details
from orderly.monitoring.collecting.monitor import Monitor
from orderly.monitoring.collecting.scan import Collector
from orderly.monitoring.collecting.selection import Selection
from orderly.namespace import DEAD_PREFIX, RETRY_PREFIX
from tests.support.brokers import delete_group, delete_topic, set_topic
from tests.support.consuming import Recorder
from tests.support.snapshots import ALWAYS, PATIENT, Surveyed, states_of, verdict_of
from tests.support.waiting import eventually, patient_client, patient_producer

HOUR = 3600.0


@pytest.fixture
def surveyed(client, group, orderly_topic):
    """The group and a topic of 2 queues; nobody is online."""
    return Surveyed(client, group, orderly_topic(queues=2))


@pytest.fixture
def send(producer, surveyed):
    """Send so many messages to a queue of the topic, or of another one, until all can be seen."""

    def send(number, count, topic=None, tags=None):
        surveyed.send(producer, number, count, topic, tags)

    return send


@pytest.fixture
def consume(orderly_namesrv, surveyed, closing):
    """Start a member of the group; closed at the end."""

    def consume(handler=None, topic=None, tags="*", **config):
        settings = ConsumerConfig(consume_from="first", close_timeout=1.0, **config)
        handler = handler or (lambda *_: ConsumeResult.SUCCESS)
        own = closing(patient_client(orderly_namesrv))
        consumer = OrderlyConsumer(surveyed.group, handler, client=own, config=settings)
        return closing(consumer.subscribe(topic or surveyed.topic, tags))

    return consume


@pytest.fixture
def check(orderly, surveyed):
    """Exit code and line of `orderly backlog check` of the group."""

    def check(*args):
        code, out, _ = orderly("backlog", "check", surveyed.group, *args)
        return code, out

    return check


# --- offsets of a group that is not there ----------------------------------------------------


def test_empty_queues_are_in_order_whether_committed_or_not(surveyed, check):
    surveyed.commit(0)
    committed, never = surveyed.rows()
    assert (committed.state.name, committed.backlog, committed.head_age) == ("OK", 0, 0.0)
    assert (never.state.name, never.backlog, never.head_age) == ("NEW", 0, 0.0)
    assert check()[0] == 0


def test_never_committed_is_not_known_and_not_the_whole_history(surveyed, send, check):
    send(0, 3)
    send(1, 4)
    surveyed.commit(0)
    zero, never = surveyed.rows()
    assert (zero.state.name, zero.committed, zero.backlog) == ("OFFLINE", 0, 3)
    assert (never.state.name, never.committed, never.backlog) == ("NEW", None, None)
    assert never.head_age is None, "303 answers with the time of day there"
    sums = surveyed.status().sums
    assert (sums.backlog, sums.unknown) == (3, 1)
    assert check()[0] == 2, "what is offline was seen, and wins over what is not known"
    surveyed.commit(3)
    code, line = check()
    assert (code, "never committed" in line) == (3, True)


def test_messages_in_a_queue_that_is_not_readable_are_an_orphans(
    surveyed, send, consume, client, check, orderly
):
    """Queues to write and not to read are never committed; what is sent there waits for nobody."""
    consume()
    set_topic(client, surveyed.topic, read=2, write=4)
    eventually(lambda: len(client.routes.get_anew(surveyed.topic).write_queues()) == 4)
    eventually(lambda: surveyed.rows()[0].committed is not None)
    for number in range(4):
        send(number, 3)
    eventually(lambda: [row.backlog for row in surveyed.rows()] == [0, 0, 3, 3])
    assert [row.state.name for row in surveyed.rows()] == ["OK", "OK", "ORPHAN", "ORPHAN"]
    code, line = check()
    assert (code, "ORPHAN 2 queues" in line, "'backlog'=6;" in line) == (2, True, True), line
    told = orderly("backlog", "explain", surveyed.group)[1]
    assert "othing waits" not in told
    assert "6 messages wait in 2 queues" in told


def test_members_with_different_topics_leave_queues_to_nobody_and_one_look_says_so(
    surveyed, send, consume, orderly_topic, orderly, check
):
    other = orderly_topic(queues=2)
    consume()
    eventually(lambda: surveyed.rows()[0].committed is not None and surveyed.rows()[1].owner)
    second = consume(topic=other)
    eventually(lambda: len(surveyed.status().members or ()) == 2)
    eventually(lambda: len([row for row in surveyed.rows() if row.owner]) == 1, within=20)
    for number in range(2):
        send(number, 3)
    eventually(lambda: sorted(row.backlog for row in surveyed.rows()) == [0, 3], within=20)
    worst = eventually(
        lambda: next((row for row in surveyed.rows() if row.state.name == "ORPHAN"), None),
        within=20,
    )
    assert (worst.backlog, worst.owner) == (3, None)
    assert f"not subscribed ({second.client_id})" in worst.cause
    code, line = check()
    assert (code, "ORPHAN" in line, "MIXED" in line) == (2, True, True), line
    doctor, told, _ = orderly("doctor", surveyed.group)
    assert (doctor, f"subscribe differently to {surveyed.topic}" in told) == (1, True), told


def test_members_with_different_tags_pass_messages_over_and_are_told(
    surveyed, consume, orderly, check
):
    one, two = consume(tags="a"), consume(tags="b")
    eventually(lambda: len([row for row in surveyed.rows() if row.owner]) == 2, within=20)
    first, second = surveyed.rows()
    assert (first.state.name, second.state.name) == ("MIXED", "MIXED")
    assert f"'a' ({one.client_id}), 'b' ({two.client_id})" in first.cause
    assert check()[0] == 1
    doctor, told, _ = orderly("doctor", surveyed.group)
    assert (doctor, f"subscribe differently to {surveyed.topic}" in told) == (1, True), told


def test_an_offset_beyond_the_end_is_ahead_and_counts_for_nothing(surveyed, send, check):
    send(0, 2)
    send(1, 3)
    surveyed.commit(7, 1)
    ahead, behind = surveyed.rows()
    assert (ahead.state.name, ahead.backlog, ahead.head_age) == ("AHEAD", None, None)
    assert behind.backlog == 2
    assert surveyed.status().sums.backlog == 2, "not 2 - 5"
    surveyed.commit(7, 3)
    assert check()[0] == 1


def test_one_look_after_a_kill_says_whose_the_queues_are(
    surveyed, send, consume, check, orderly, client
):
    """The lock of a member that was killed stays with it for 60 s."""
    send(0, 2)
    surveyed.commit(0, 0)
    queues = [surveyed.queue(0), surveyed.queue(1)]

    def still_locked():
        return client.brokers.lock_queues(surveyed.group, "broker-a", queues)

    assert still_locked()
    heir = consume()
    eventually(lambda: still_locked() and surveyed.rows()[0].state.name == "UNLOCKED", within=50)
    assert surveyed.rows()[1].state.name == "OK", "nothing waits there"
    code, line = check()
    assert (code, "UNLOCKED 1 queue" in line) == (1, True), line
    told = " ".join(orderly("backlog", "explain", surveyed.group)[1].split())
    assert "or a dead member has, and its lock is free 60 s after the last renewal" in told
    assert "more than it can use" not in told
    assert not heir.health().ready


@pytest.fixture
def make_anew(surveyed, client):
    """Delete the topic, make it anew, and send so many messages to its first queue."""

    def make_anew(count):
        delete_topic(client, surveyed.topic)
        client.routes.forget(surveyed.topic)
        client.admin.create_topic(surveyed.topic, 2)
        with patient_producer(client=client) as producer:
            surveyed.send(producer, 0, count)

    return make_anew


def test_a_topic_made_anew_is_ahead_until_its_group_is_set_back(surveyed, send, make_anew, orderly):
    """A single look, of a group without a record, cannot know more."""
    send(0, 5)
    surveyed.commit(5, 0)
    make_anew(1)
    surveyed.commit(5, 0)  # a member that has not noticed
    row = surveyed.rows()[0]
    assert (row.state.name, row.backlog) == ("AHEAD", None)
    assert "created again" in row.cause
    orderly("offsets", "reset", surveyed.group, surveyed.topic, "--to-earliest", "--yes")
    row = surveyed.rows()[0]
    assert (row.state.name, row.backlog) == ("OFFLINE", 1)


@pytest.mark.parametrize("count", [2, 8], ids=["shorter", "longer"])
def test_by_key_a_topic_made_anew_is_told_until_a_member_went_on(
    surveyed, send, make_anew, consume, check, count
):
    """The group's offsets were deleted with the topic; its state records tell."""
    send(0, 5)
    consumer = consume(order="key")
    eventually(lambda: surveyed.rows()[0].committed == 5)
    consumer.close()
    make_anew(count)
    row = surveyed.rows()[0]
    assert (row.state.name, row.committed, row.backlog) == ("OFFLINE", None, count)
    assert "created again: the group was at 5" in row.cause
    assert "no member is connected, and the first to connect begins at 0" in row.cause
    assert check()[0] == 2
    consume(order="key")
    eventually(lambda: surveyed.rows()[0].committed == count)
    assert states_of(surveyed.rows())[0] == "OK"


@pytest.mark.parametrize("order", ["queue", "key"])
def test_a_monitor_sees_a_topic_made_anew_under_its_members(
    surveyed, send, make_anew, consume, client, order
):
    seen = []  # (state, committed, cause) of the first queue, in each snapshot
    collector = Collector(client, Selection(groups=(surveyed.group,)), PATIENT)
    monitor = Monitor(
        collector,
        Backlog(EvaluationSettings(window=100.0, min_window=2.0)),
        Details(collector.pipeline, ALWAYS, asked=(surveyed.group,)),
        interval=0.2,
        taken=lambda snapshot: seen.extend(_first_of(snapshot, surveyed)),
    )
    consume(order=order, commit_interval=0.1)
    for count in range(1, 6):  # one by one: by key, the state record stays behind the offset
        send(0, 1)
        eventually(lambda count=count: surveyed.rows()[0].committed == count)
    with monitor:
        eventually(lambda: seen and seen[-1][:2] == ("OK", 5))
        make_anew(3)
        first = eventually(lambda: next((it for it in seen if it[0] == "RECREATED"), None))
        assert "was at 5" in first[2]
        at_3 = ("RECREATED", 3)
        later = eventually(lambda: next((it for it in seen if it[:2] == at_3), None), within=60)
        assert "was at 5 in the old topic, and went on; it is at 3 now" in later[2]
        eventually(lambda: seen[-1][:2] == ("OK", 3), within=20)
    assert {state for state, *_ in seen}.isdisjoint({"REWIND", "AHEAD", "NEW", "LOST"})


def _first_of(snapshot, surveyed):
    topics = snapshot.groups[surveyed.group].topics if surveyed.group in snapshot.groups else {}
    for row in list(topics[surveyed.topic].rows())[:1] if surveyed.topic in topics else ():
        yield row.state.name, row.committed, row.cause


# --- whose, and which, messages they are -----------------------------------------------------


def test_retries_are_a_line_of_their_own(surveyed, send, client):
    """Those of POP: see test_backlog_broker_side."""
    own = f"{RETRY_PREFIX}{surveyed.group}"
    surveyed.commit(0, 0)
    client.admin.create_topic(own, 1)
    assert own not in surveyed.status().topics, "nothing is in it"
    send(0, 1, own)
    topics = surveyed.status().topics
    assert {name: topic.sums.backlog for name, topic in topics.items()} == {
        surveyed.topic: 0, own: None,
    }  # fmt: skip
    assert topics[own].sums.states == {QueueState.NEW: 1}


def test_dead_letters_are_told_apart_from_the_backlog_and_are_a_warning(
    surveyed, send, client, check
):
    dead = f"{DEAD_PREFIX}{surveyed.group}"
    client.admin.create_topic(dead, 1)
    send(0, 2, dead)
    surveyed.commit(0, 0)
    status = surveyed.status()
    assert (status.dead.messages, status.sums.backlog) == (2, 0)
    assert dead not in status.topics
    assert check()[0] == 1
    assert check("--warn-dead", "5")[0] == 0


def test_what_a_filter_leaves_out_is_backlog_until_a_member_swept_over_it(
    surveyed, send, consume, check
):
    send(0, 5, tags="other")
    surveyed.commit(0, 0)
    assert surveyed.status().sums.backlog == 5, "raw: brokers count messages of any tag"
    seen = Recorder()
    consume(seen, tags="mine", commit_interval=0.1)
    eventually(lambda: surveyed.status().sums.backlog == 0)
    assert seen.deliveries == []


def test_a_queue_that_is_added_is_new_and_one_nobody_reads_is_an_orphan(
    surveyed, send, client, consume, check
):
    send(0, 1)
    surveyed.commit(0, 0)
    set_topic(client, surveyed.topic, read=3, write=3)
    client.routes.refresh(surveyed.topic)
    assert states_of(surveyed.rows()) == ["OFFLINE", "OK", "NEW"]
    surveyed.commit(1, 0, 0)
    set_topic(client, surveyed.topic, read=1, write=3)
    client.routes.refresh(surveyed.topic)
    with patient_producer(client=client) as producer:
        surveyed.send(producer, 1, 2)
        surveyed.send(producer, 2, 1)
    consume()
    eventually(lambda: surveyed.status().members)
    rows = surveyed.rows()
    assert states_of(rows) == ["OK", "ORPHAN", "ORPHAN"]
    assert [row.backlog for row in rows] == [0, 2, 1]
    assert "nobody reads" in rows[1].cause
    assert check()[0] == 2


# --- members ---------------------------------------------------------------------------------


def test_a_group_that_left_is_offline_and_one_that_comes_works_it_off(surveyed, send, consume):
    send(0, 3)
    surveyed.commit(0, 0)
    status = surveyed.status()
    assert (status.members, status.sums.state.name, status.sums.backlog) == ((), "OFFLINE", 3)
    assert verdict_of(status) == "CRITICAL"
    consume()
    eventually(lambda: verdict_of(surveyed.status()) == "OK" and surveyed.status().members)


def test_offsets_of_a_broadcasting_group_do_not_apply(surveyed, send, consume, check, tmp_path):
    send(0, 3)
    surveyed.commit(1, 9)  # left over from when it did not broadcast
    assert states_of(surveyed.rows()) == ["OFFLINE", "AHEAD"]
    consume(model="broadcasting", instance="one", offsets_folder=str(tmp_path))
    status = eventually(lambda: (s := surveyed.status()).model == "BROADCASTING" and s)
    rows = status.topics[surveyed.topic].rows()
    assert {(row.state.name, row.backlog) for row in rows} == {("NOT_APPLICABLE", None)}
    assert status.sums.backlog is None
    assert check()[0] == 0


def test_a_topic_no_longer_subscribed_to_is_told_while_members_are_online_too(
    surveyed, send, consume, orderly_topic
):
    send(0, 4)
    surveyed.commit(0, 0)
    other = orderly_topic(queues=1)
    consumer = consume(topic=other)
    status = eventually(lambda: (s := surveyed.status()).members and other in s.topics and s)
    assert {row.state.name for row in status.topics[surveyed.topic].rows()} == {"NOT_APPLICABLE"}
    assert any(surveyed.topic in finding for finding in status.findings)
    consumer.close()
    assert eventually(lambda: surveyed.rows()[0].state.name == "OFFLINE")


# --- clocks and busy queues ------------------------------------------------------------------


def test_ages_are_right_though_the_monitors_clock_is_an_hour_off(
    surveyed, send, monkeypatch, orderly_namesrv
):
    send(0, 1)
    surveyed.commit(0, 0)
    real = time.time
    for error in (HOUR, -HOUR):
        monkeypatch.setattr(time, "time", lambda error=error: real() + error)
        snapshot = surveyed.snapshot(samples=2, interval=0.1)
        assert snapshot.brokers["broker-a"].clock_offset == pytest.approx(-error, abs=10)
        row = next(iter(snapshot.rows()))
        assert 0 <= row.head_age < 60


def test_a_busy_queue_never_looks_as_if_its_group_were_ahead(surveyed, send, consume):
    consume(commit_interval=0.05)
    end = threading.Event()

    def keep_on():
        while not end.is_set():
            send(0, 10)

    busy = threading.Thread(target=keep_on, name="busy-sender", daemon=True)
    busy.start()
    try:
        eventually(lambda: surveyed.rows()[0].committed)
        collector = Collector(surveyed.client, Selection(groups=(surveyed.group,)), PATIENT)
        backlog, found = Backlog(), []

        def enough():
            found.extend(backlog.take(collector.scan()).rows())
            return len(found) >= 200 and len({row.committed for row in found}) > 5  # it was busy

        eventually(enough)
    finally:
        end.set()
        busy.join()
    assert {row.state.name for row in found} <= {"OK", "LAGGING"}, "members need not keep up"
    assert min(row.backlog for row in found) >= 0


def test_a_group_that_vanishes_is_gone_within_two_scans(surveyed, client):
    surveyed.commit(0, 0)
    seen = []  # whether it is in each snapshot
    monitor = Monitor(
        Collector(client, Selection(groups=(surveyed.group,)), PATIENT),
        Backlog(),
        interval=0.1,
        taken=lambda snapshot: seen.append(surveyed.group in snapshot.groups),
    )
    with monitor:
        eventually(lambda: seen and seen[-1])
        delete_group(client, surveyed.group)
        after = len(seen)
        eventually(lambda: len(seen) > after + 2)
        assert not any(seen[after + 2 :])
        eventually(lambda: monitor.history(surveyed.group) == ())
