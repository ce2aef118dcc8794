"""The machine as a whole: what waits, what expires, what a restart keeps, who is told."""

import pytest

from orderly.model import MessageQueue
from orderly.protocol.codes import RequestCode, ResponseCode
from orderly.protocol.ext import to_ext
from orderly.protocol.heartbeat import GetConsumerList
from orderly.protocol.members import (
    ConsumeDirectly,
    DirectOutcome,
    DirectResult,
    GetRunningInfo,
    encode_direct_result,
)
from orderly.protocol.offsets import (
    GetMaxOffset,
    GetOffsetsOfMembers,
    QueryConsumerOffset,
    SearchOffset,
    UpdateConsumerOffset,
    decode_offsets_of_members,
    encode_member_offsets,
)
from orderly.protocol.route import GetRouteInfo, decode_route
from orderly.protocol.send import SendMessage
from orderly.protocol.stored_message import decode_messages
from orderly.testing.fake.state import FIRST_FLUSH

TOLD = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED


def bodies(reply):
    return [message.body for message in decode_messages(reply.body, "broker-a")]


def max_offset(driver, topic, on=1):
    return int(driver.ask(GetMaxOffset(topic=topic, queue_id=0), on=on).ext["offset"])


# --- waiting pulls -----------------------------------------------------------------------------


def test_a_message_wakes_the_pulls_that_want_it(driver):
    assert driver.pull(on=2, suspend=15) is None
    assert driver.pull(on=3, suspend=15, subscription="b") is None
    driver.send(b"1", TAGS="a")
    (reply,) = driver.take(2)
    assert (reply.code, bodies(reply)) == (0, [b"1"])
    assert driver.take(3) == []


def test_a_pull_that_wants_something_else_is_answered_at_the_next_look(driver):
    driver.pull(on=3, suspend=15, subscription="b")
    driver.send(TAGS="a")
    driver.tick(3.9)
    (reply,) = driver.take(3)
    assert (reply.code, reply.ext["nextBeginOffset"]) == (20, "1")


def test_a_pull_that_waited_long_enough_is_answered_at_the_next_look(driver):
    driver.tick()
    driver.pull(on=2, suspend=3)
    assert driver.cluster.next_event(driver.now) == driver.now + 4
    driver.tick(3.9)
    assert driver.take(2) == []
    driver.tick(0.1)
    (reply,) = driver.take(2)
    assert reply.code == ResponseCode.PULL_NOT_FOUND
    assert driver.cluster.next_event(driver.now) is None


def test_one_message_wakes_each_pull_once(driver):
    driver.pull(on=2, suspend=15)
    driver.send()
    driver.send()
    driver.tick(60)
    assert len(driver.take(2)) == 1


def test_the_pulls_of_a_lost_connection_are_forgotten(driver):
    driver.pull(on=2, suspend=15)
    assert driver.cluster.next_event(driver.now) is not None
    driver.hang_up(2)
    assert driver.cluster.next_event(driver.now) is None


def test_a_held_pull_is_not_woken_by_a_reset_and_told_of_it_when_it_ends(driver):
    driver.send()
    driver.pull(1, on=2, suspend=15)
    ext = {"topic": "orders", "group": "g", "timestamp": "-1", "queueId": "0", "offset": "0"}
    assert driver.raw(222, ext).code == 0
    assert driver.take(2) == []
    driver.send()
    (reply,) = driver.take(2)
    assert (reply.code, reply.remark, reply.ext["nextBeginOffset"]) == (21, "OFFSET_RESET", "0")


# --- time --------------------------------------------------------------------------------------


def test_a_silent_member_is_gone_and_the_others_are_told(driver):
    driver.heartbeat("c1", on=1)
    driver.tick(60)
    driver.heartbeat("c2", on=2)
    driver.take(2)
    driver.tick(59.9)
    assert driver.take(2, TOLD) == []
    driver.tick(0.1)
    assert len(driver.take(2, TOLD)) == 1
    assert driver.ask(GetConsumerList(consumer_group="g")).body == b'{"consumerIdList":["c2"]}'


def test_a_delayed_message_appears_in_time(driver):
    driver.send(b"later", DELAY="2")
    assert driver.cluster.next_event(driver.now) == driver.now + 5
    driver.tick(4.9)
    assert max_offset(driver, "orders") == 0
    driver.tick(0.1)
    assert bodies(driver.pull()) == [b"later"]


@pytest.mark.parametrize(
    ("count", "limit", "locked", "dead"),
    [(1, 16, False, 0), (2, 2, False, 0), (3, 2, False, 1), (1, 16, True, 1)],
    ids=["retry", "at the limit", "over the limit", "locked"],
)
def test_dead_letters_are_by_count_or_by_lock(driver, count, limit, locked, dead):
    if locked:
        driver.lock("c1", 0)
    header = SendMessage(
        producer_group="p", topic="%RETRY%g", queue_id=0, born_timestamp=1, properties="",
        reconsume_times=count, max_reconsume_times=limit,
    )  # fmt: skip
    assert driver.ask(header, b"x").code == 0
    assert (max_offset(driver, "%DLQ%g"), max_offset(driver, "%RETRY%g")) == (dead, 1 - dead)


def test_an_expired_lock_makes_no_dead_letters(driver):
    driver.lock("c1", 0)
    driver.now += 61
    driver.send(topic="%RETRY%g")
    assert max_offset(driver, "%DLQ%g") == 0


# --- brokers that come and go ------------------------------------------------------------------


def test_a_restart_keeps_what_is_on_disk_and_no_lock(driver):
    driver.send(b"1")
    driver.heartbeat()
    driver.lock("c1", 0)
    driver.ask(
        UpdateConsumerOffset(consumer_group="g", topic="orders", queue_id=0, commit_offset=1)
    )
    route = GetRouteInfo(topic="orders")
    driver.cluster.stop_broker("broker-a")
    assert driver.ask(route, on=9).code == ResponseCode.TOPIC_NOT_EXIST
    driver.hang_up(1)
    driver.cluster.start_broker("broker-a")
    assert len(decode_route("orders", driver.ask(route, on=9).body).read_queues()) == 4
    stored = QueryConsumerOffset(
        consumer_group="g", topic="orders", queue_id=0, set_zero_if_not_found=False
    )
    assert driver.ask(stored).ext["offset"] == "1"
    assert bodies(driver.pull()) == [b"1"]
    assert driver.lock("c2", 0) == [0]
    assert driver.ask(GetConsumerList(consumer_group="g")).code == ResponseCode.SYSTEM_ERROR


def test_a_kill_keeps_the_messages_and_the_offsets_that_were_flushed(driver):
    driver.send(b"1")
    driver.heartbeat()

    def commit(offset):
        header = UpdateConsumerOffset(
            consumer_group="g", topic="orders", queue_id=0, commit_offset=offset
        )
        assert driver.ask(header).code == 0

    commit(1)
    driver.now += FIRST_FLUSH
    commit(0)
    driver.cluster.kill_broker("broker-a", driver.now + 1)
    driver.hang_up(1)
    driver.cluster.start_broker("broker-a")
    stored = QueryConsumerOffset(
        consumer_group="g", topic="orders", queue_id=0, set_zero_if_not_found=False
    )
    assert driver.ask(stored).ext["offset"] == "1"
    assert bodies(driver.pull()) == [b"1"]


def test_a_topic_deleted_and_made_again_begins_anew(driver):
    driver.send(b"1")
    driver.cluster.delete_topic("orders")
    assert driver.ask(GetRouteInfo(topic="orders"), on=9).code == ResponseCode.TOPIC_NOT_EXIST
    assert driver.pull().code == ResponseCode.TOPIC_NOT_EXIST
    driver.cluster.create_topic("orders", 4)
    assert max_offset(driver, "orders") == 0
    driver.send(b"2")
    assert bodies(driver.pull()) == [b"2"]


def test_each_broker_has_its_own_queues_locks_and_members(new_driver):
    driver = new_driver("broker-a", "broker-b")
    driver.cluster.create_topic("orders", 2)
    driver.connect(1, "broker-a")
    driver.connect(2, "broker-b")
    driver.connect(9, "")
    route = decode_route("orders", driver.ask(GetRouteInfo(topic="orders"), on=9).body)
    assert [(q.broker_name, q.queue_id) for q in route.read_queues()] == [
        ("broker-a", 0), ("broker-a", 1), ("broker-b", 0), ("broker-b", 1),
    ]  # fmt: skip
    driver.send(on=1)
    assert (max_offset(driver, "orders", on=1), max_offset(driver, "orders", on=2)) == (1, 0)
    assert driver.lock("c1", 0, on=1) == driver.lock("c2", 0, on=2) == [0]
    driver.heartbeat(on=1)
    assert driver.ask(GetConsumerList(consumer_group="g"), on=2).code != 0
    driver.cluster.stop_broker("broker-b")
    route = decode_route("orders", driver.ask(GetRouteInfo(topic="orders"), on=9).body)
    assert {q.broker_name for q in route.read_queues()} == {"broker-a"}


# --- questions to members ----------------------------------------------------------------------


def asked(driver, on):
    (question,) = [c for c in driver.take(on) if not c.is_response and c.code != TOLD]
    return question


def test_a_question_waits_for_the_members_answer(driver):
    driver.heartbeat("c1", on=2)
    driver.take(2)
    assert driver.ask(GetRunningInfo(consumer_group="g", client_id="c1")) is None
    driver.answer(asked(driver, 2), b"{}", on=2)
    (reply,) = driver.take(1)
    assert (reply.code, reply.body, reply.request_id) == (0, b"{}", 77)


def test_a_member_that_does_not_answer_in_time(driver):
    driver.heartbeat("c1", on=2)
    driver.ask(GetRunningInfo(consumer_group="g", client_id="c1"))
    assert driver.cluster.next_event(driver.now) == driver.now + 10
    late = asked(driver, 2)
    driver.tick(10)
    (reply,) = driver.take(1)
    assert reply.code == ResponseCode.CONSUME_MSG_TIMEOUT
    driver.answer(late, b"{}", on=2)
    assert driver.take(1) == []


def test_a_member_that_leaves_instead_of_answering(driver):
    driver.heartbeat("c1", on=2)
    driver.ask(GetRunningInfo(consumer_group="g", client_id="c1"))
    driver.hang_up(2)
    (reply,) = driver.take(1)
    assert reply.code == ResponseCode.SYSTEM_ERROR


def test_offsets_are_asked_of_all_members_and_put_together(driver):
    driver.heartbeat("c1", on=2)
    driver.heartbeat("c2", on=3)
    driver.take(2)
    driver.take(3)
    driver.ask(GetOffsetsOfMembers(topic="orders", group="g"))
    queue = MessageQueue("orders", "broker-a", 0)
    driver.answer(asked(driver, 2), encode_member_offsets({queue: 5}), on=2)
    assert driver.take(1) == []
    driver.tick(5)  # the other one is silent
    (reply,) = driver.take(1)
    assert decode_offsets_of_members(reply.body) == {"c1": {queue: 5}}


def test_a_message_to_consume_directly_goes_as_it_is_stored(driver):
    offset_id = driver.send(b"mine").ext["msgId"]
    driver.heartbeat("c1", on=2)
    driver.take(2)
    header = ConsumeDirectly(consumer_group="g", client_id="c1", msg_id=offset_id)
    assert driver.ask(header) is None
    question = asked(driver, 2)
    assert bodies(question) == [b"mine"]
    assert question.ext["brokerName"] == "broker-a"
    answer = encode_direct_result(DirectResult(DirectOutcome.SUCCESS))
    driver.answer(question, answer, on=2)
    assert driver.take(1)[-1].body == answer


def test_the_time_a_message_shows_is_the_time_it_is_found_by(driver):
    driver.now += 0.0009  # brokers count whole milliseconds
    driver.send()
    (message,) = decode_messages(driver.pull().body, "broker-a")
    found = SearchOffset(topic="orders", queue_id=0, timestamp=round(message.store_time * 1000))
    assert driver.ask(found).ext["offset"] == "0"
    later = SearchOffset(topic="orders", queue_id=0, timestamp=found.timestamp + 1)
    assert driver.ask(later).ext["offset"] == "1"


# --- the rest ----------------------------------------------------------------------------------


def test_a_oneway_request_is_carried_out_and_not_answered(driver):
    ext = to_ext(SendMessage(producer_group="p", topic="orders", queue_id=0, born_timestamp=1))
    assert driver.raw(RequestCode.SEND_MESSAGE_V2, ext, b"x", oneway=True) is None
    assert driver.raw(RequestCode.SEND_MESSAGE_V2, {}, b"", oneway=True) is None
    assert max_offset(driver, "orders") == 1


def test_what_cannot_be_read_is_an_answer_not_a_crash(driver):
    for code in (10, 11, 14, 15, 17, 25, 34, 41, 46, 200, 222, 309, 310, 320, -1):
        assert driver.raw(code, {"queueId": "x"}, b"\xff{").code != 0
    assert driver.raw(105, {}, on=9).code == ResponseCode.SYSTEM_ERROR


def test_a_setting_it_does_not_have_is_refused(driver):
    def setting(text):
        return driver.raw(RequestCode.UPDATE_BROKER_CONFIG, body=text).code

    assert setting(b"enablePropertyFilter=true\n") != 0
    assert setting(b"enablePropertyFilter=false\n") == 0
    assert setting(b"autoCreateTopicEnable=true\n") == 0
    assert driver.send(topic="brand-new").code == 0


def test_a_broker_that_may_not_be_written_refuses_ordered_topics_and_says_so_in_routes(driver):
    driver.raw(RequestCode.UPDATE_BROKER_CONFIG, body=b"brokerPermission=4\n")
    assert driver.send().code == ResponseCode.NO_PERMISSION
    route = decode_route("orders", driver.ask(GetRouteInfo(topic="orders"), on=9).body)
    assert route.write_queues() == ()
    assert len(route.read_queues()) == 4
