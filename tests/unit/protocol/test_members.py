"""What our members tell of their queues: it comes back as it was, stays small, and harms nobody."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import ProtocolError
from orderly.model import MessageQueue
from orderly.protocol.heartbeat import Subscription
from orderly.protocol.members import (
    LONGEST,
    LONGEST_REASON,
    MOST_QUEUES,
    DirectOutcome,
    DirectResult,
    QueueInfo,
    QueueReport,
    RunningInfo,
    RunningProperty,
    TopicConsumeStatus,
    decode_direct_result,
    decode_running_info,
    encode_direct_result,
    encode_running_info,
    queue_reports,
    report_texts,
)

texts = st.text(st.characters(codec="utf-8"), max_size=10)
numbers = st.integers(0, 2**53)
times = st.integers(0, 2**41).map(lambda ms: ms / 1000)
rates = st.floats(0, 1e9)
queues = st.builds(MessageQueue, texts, texts, st.integers(0, 2**31 - 1))
queue_infos = st.builds(
    QueueInfo,
    commit_offset=numbers,
    cached_min=numbers,
    cached_max=numbers,
    cached_count=numbers,
    cached_mib=numbers,
    in_hand_min=numbers,
    in_hand_max=numbers,
    in_hand_count=numbers,
    locked=st.booleans(),
    try_unlock_times=numbers,
    last_lock_time=times,
    dropped=st.booleans(),
    last_pull_time=times,
    last_consume_time=times,
)
statuses = st.builds(
    TopicConsumeStatus,
    pull_rt=rates,
    pull_tps=rates,
    consume_rt=rates,
    consume_ok_tps=rates,
    consume_failed_tps=rates,
    consume_failed_messages=numbers,
)
subscriptions = st.builds(Subscription, texts, texts, version=numbers)
infos = st.builds(
    RunningInfo,
    st.dictionaries(texts, texts, max_size=3),
    st.lists(subscriptions, max_size=2).map(tuple),
    st.dictionaries(queues, queue_infos, max_size=3),
    st.dictionaries(texts, statuses, max_size=2),
    texts,
    st.dictionaries(texts, texts, max_size=2),
)


@given(infos)
def test_a_running_info_survives_the_wire(info):
    assert decode_running_info(encode_running_info(info)) == info


def test_queues_are_written_as_java_reads_them():
    state = QueueInfo(commit_offset=7, dropped=True, last_pull_time=1.5, in_hand_count=2)
    info = RunningInfo({RunningProperty.ORDERLY: "true"}, queues={MessageQueue("t", "b", 0): state})
    text = encode_running_info(info).decode()
    assert '"mqTable":{{"brokerName":"b","queueId":0,"topic":"t"}:{"commitOffset":7,' in text
    assert '"droped":true' in text
    assert '"lastPullTimestamp":1500' in text
    assert '"transactionMsgCount":2' in text
    assert '"properties":{"PROP_CONSUMEORDERLY":"true"}' in text
    assert "jstack" not in text, "Java prints a heading for it even if it is empty"


def test_a_java_members_running_info_is_read():
    body = (
        b'{"jstack":"main TID: 1","mqPopTable":{},"mqTable":{{"brokerName":"b","queueId":1,'
        b'"topic":"t"}:{"cachedMsgCount":3,"cachedMsgMaxOffset":9,"cachedMsgMinOffset":7,'
        b'"cachedMsgSizeInMiB":1,"commitOffset":7,"droped":false,"lastConsumeTimestamp":2000,'
        b'"lastLockTimestamp":1000,"lastPullTimestamp":3000,"locked":true,"transactionMsgCount":0,'
        b'"transactionMsgMaxOffset":0,"transactionMsgMinOffset":0,"tryUnlockTimes":0}},'
        b'"properties":{"PROP_CONSUMER_START_TIMESTAMP":"1","maxReconsumeTimes":16},'
        b'"statusTable":{"t":{"consumeFailedMsgs":1,"consumeFailedTPS":0.5,"consumeOKTPS":2,'
        b'"consumeRT":1.5,"pullRT":3,"pullTPS":4.0}},"subscriptionSet":[],"userConsumerInfo":{}}'
    )
    info = decode_running_info(body)
    assert info.properties == {"PROP_CONSUMER_START_TIMESTAMP": "1", "maxReconsumeTimes": "16"}
    state = info.queues[MessageQueue("t", "b", 1)]
    assert (state.cached_min, state.cached_max, state.cached_count) == (7, 9, 3)
    assert (state.last_lock_time, state.last_consume_time, state.last_pull_time) == (1.0, 2.0, 3.0)
    assert state.locked
    assert info.topics["t"] == TopicConsumeStatus(
        pull_rt=3.0,
        pull_tps=4.0,
        consume_rt=1.5,
        consume_ok_tps=2.0,
        consume_failed_tps=0.5,
        consume_failed_messages=1,
    )
    assert info.jstack == "main TID: 1"
    assert not info.pops
    queue = b'{"brokerName":"b","queueId":-1,"topic":"t"}:{"waitAckCount":0}'
    assert decode_running_info(body.replace(b'"mqPopTable":{}', b'"mqPopTable":{%b}' % queue)).pops


def test_a_go_members_running_info_is_read():
    """As rocketmq-client-go 2.1.2 sent it, 80 s after its handler began not to return."""
    body = (
        b'{"properties":{"PROP_CLIENT_VERSION":"v2.1.1","PROP_CONSUMEORDERLY":"true",'
        b'"PROP_CONSUMER_START_TIMESTAMP":"1795288014992","PROP_CONSUME_TYPE":"CONSUME_PASSIVELY",'
        b'"PROP_NAMESERVER_ADDR":"127.0.0.1:11800;","PROP_THREADPOOL_CORE_SIZE":"-1"},'
        b'"statusTable":{"orders":{"pullRT":0,"pullTPS":0,"consumeRT":0,"consumeOKTPS":0,'
        b'"consumeFailedTPS":0,"consumeFailedMsgs":0}},"subscriptionSet":[{"classFilterMode":false,'
        b'"topic":"orders","subString":"*","tagsSet":[],"codeSet":[],'
        b'"subVersion":1795288015021514270,"expressionType":"TAG"}],"mqTable":{{"topic":"orders",'
        b'"brokerName":"broker-a","queueId":0}:{"commitOffset":0,"cachedMsgMinOffset":1,'
        b'"cachedMsgMaxOffset":2,"cachedMsgCount":2,"cachedMsgSizeInMiB":0,'
        b'"transactionMsgMinOffset":0,"transactionMsgMaxOffset":0,"transactionMsgCount":1,'
        b'"locked":true,"tryUnlockTimes":0,"lastLockTimestamp":1795288015124,"dropped":true,'
        b'"lastPullTimestamp":1795288064767,"lastConsumeTimestamp":1795288056026}}, "jstack":"" }'
    )
    info = decode_running_info(body)
    assert info.properties[RunningProperty.ORDERLY] == "true"
    state = info.queues[MessageQueue("orders", "broker-a", 0)]
    assert (state.locked, state.dropped, state.in_hand_count) == (True, True, 1)
    assert state.last_lock_time == 0.0, "it is not that of the last renewal"
    assert [sub.topic for sub in info.subscriptions] == ["orders"]


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b'{"mqTable":{"no queue":{}}}',
        b'{"mqTable":{{"topic":"t","brokerName":"b","queueId":0}:1}}',
        b'{"statusTable":{"t":{"pullRT":"fast"}}}',
        b'{"statusTable":{"t":{"pullRT":true}}}',
    ],
)
def test_what_is_no_running_info_is_refused(body):
    with pytest.raises(ProtocolError):
        decode_running_info(body)


def test_a_rate_that_json_cannot_say_is_refused_when_written():
    with pytest.raises(ProtocolError):
        encode_running_info(RunningInfo({}, topics={"t": TopicConsumeStatus(pull_rt=float("inf"))}))
    assert json.loads(encode_running_info(RunningInfo({})))["userConsumerInfo"] == {}


QUEUE = MessageQueue("orders", "broker-a", 3)
all_texts = st.none() | st.text(max_size=LONGEST).map(
    lambda t: t.encode("utf-8", "replace").decode()
)
tenths = st.none() | st.integers(0, 10**9).map(lambda n: n / 10)
reports = st.builds(
    QueueReport,
    why=st.sampled_from(["HUNG", "SUSPENDED"]),
    offset=st.none() | st.integers(0, 2**62),
    key=all_texts,
    attempts=st.integers(0, 2**31),
    failing_for=tenths,
    fingerprint=all_texts,
    reason=all_texts,
    seconds=tenths,
    parked=st.integers(0, 10**6),
)


def reported(pairs):
    """What a reader makes of the reports of some queues, over the wire."""
    info = RunningInfo({}, (), {queue: QueueInfo() for queue, _ in pairs}, user=report_texts(pairs))
    return queue_reports(decode_running_info(encode_running_info(info)))


@given(reports)
def test_what_was_reported_is_read(one):
    assert reported([(QUEUE, one)]) == {QUEUE: one}


def test_it_is_one_line_of_json_that_names_the_queue():
    (name, text), *_ = report_texts([(QUEUE, QueueReport(why="HUNG", offset=7))]).items()
    assert name == "orderly orders/broker-a/3"
    assert json.loads(text) == {"v": 1, "why": "HUNG", "offset": 7, "attempts": 0, "parked": 0}


def test_whatever_keys_and_failures_hold_it_stays_small():
    long = QueueReport(why="S" * 10**6, key="\x00€" * 10**6, reason="\udc00" * 10**6,
                     fingerprint="f" * 10**6)  # fmt: skip
    pairs = [(MessageQueue("t" * 127, "broker-a", n), long) for n in range(1000)]
    written = report_texts(pairs)
    assert len(written) == MOST_QUEUES
    kept = reported(pairs)
    assert list(kept) == [queue for queue, _ in pairs[:MOST_QUEUES]], "the first are kept"
    assert sum(len(text.encode()) for text in written.values()) < 128 * 1024
    first = kept[pairs[0][0]]
    assert (len(first.key), len(first.reason)) == (LONGEST, LONGEST_REASON)


@pytest.mark.parametrize(
    "text",
    ["", "x", "[]", '{"v":2,"why":"HUNG"}', '{"v":1}', '{"v":1,"why":"HUNG","offset":-1}',
     '{"v":1,"why":"HUNG","attempts":"2"}', "\ud800"],
)  # fmt: skip
def test_what_is_not_ours_is_left_out(text):
    user = {f"orderly {QUEUE}": text, "something else": "of the user's"}
    assert queue_reports(RunningInfo({}, (), {QUEUE: QueueInfo()}, user=user)) == {}


def test_the_report_of_a_queue_the_member_does_not_have_is_left_out():
    user = report_texts([(QUEUE, QueueReport(why="HUNG"))])
    assert queue_reports(RunningInfo({}, user=user)) == {}


results = st.builds(
    DirectResult,
    st.sampled_from(DirectOutcome),
    st.booleans(),
    st.text(st.characters(codec="utf-8")),
    st.integers(0, 2**40).map(lambda ms: ms / 1000),
)


@given(results)
def test_a_result_survives_the_wire(result):
    assert decode_direct_result(encode_direct_result(result)) == result


def test_a_result_is_written_as_java_reads_it():
    result = DirectResult(DirectOutcome.LATER, auto_commit=False, remark="no", spent=1.2345)
    assert json.loads(encode_direct_result(result)) == {
        "order": True,
        "autoCommit": False,
        "consumeResult": "CR_LATER",
        "remark": "no",
        "spentTimeMills": 1234,
    }


@pytest.mark.parametrize("body", [b"{}", b'{"consumeResult":"CR_FINE"}', b"[]"])
def test_what_is_no_result_is_refused(body):
    with pytest.raises(ProtocolError):
        decode_direct_result(body)
