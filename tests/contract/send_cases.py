"""Sends: single, in batches, refused, retried, delayed."""

from orderly.protocol.codes import RequestCode as Code
from orderly.protocol.offsets import GetMaxOffset
from orderly.protocol.pull import ViewMessage
from orderly.protocol.route import GetRouteInfo
from orderly.protocol.send import SendBatch, SendMessage, encode_batch
from orderly.protocol.topics import GetTopicConfig
from tests.contract.steps import (
    BORN,
    case,
    locking,
    message,
    props,
    retried,
    topic,
)


@case
def one_message(w):
    topic(w)
    text = props(UNIQ_KEY="A" * 32, TAGS="a", KEYS="x y", WAIT="true", mine="ä")
    w.ask(message(w, properties=text, flag=7, sys_flag=0), "body ü".encode())
    w.visible(w.topic, 0, 1)
    w.ask(w.pull())


@case
def a_message_with_odd_properties(w):
    topic(w)
    w.ask(message(w, properties="a\x01\x02\x01b\x02c\x01d"), b"x")
    w.ask(message(w, properties=None), b"x")
    w.ask(message(w, properties=props(WAIT="false")), b"x")
    w.visible(w.topic, 0, 3)
    w.ask(w.pull())


@case
def batches(w):
    topic(w)
    members = [(b"%d" % i, props(UNIQ_KEY=f"{i:032X}", TAGS="t"), i) for i in range(3)]
    fields = {"producer_group": "p", "topic": w.topic, "queue_id": 0, "born_timestamp": BORN}
    w.ask(SendBatch(**fields), encode_batch(members))
    w.ask(SendMessage(**fields, batch=True), encode_batch(members))
    w.ask(SendBatch(**fields | {"topic": f"%RETRY%{w.group}"}), encode_batch(members))
    w.visible(w.topic, 0, 6)
    w.ask(w.pull())


@case
def sends_that_are_refused(w):
    topic(w)
    w.ask(message(w, name=w.topic + "-other"), b"x")
    w.ask(message(w, queue_id=2), b"x")
    w.ask(message(w), b"")
    w.ask(message(w, name="with space"), b"x")
    w.ask(message(w), b"x" * (4 * 1024 * 1024 + 1))
    w.ask(message(w, properties="k\x01" + "v" * 33000 + "\x02"), b"x")
    w.raw(Code.SEND_MESSAGE_V2, {"a": "p", "b": w.topic}, b"x")


@case
def a_queue_between_the_read_and_the_write_queues(w):
    topic(w, 1, read=3)
    w.ask(message(w, queue_id=2), b"x")
    topic(w, 3, read=1)
    w.ask(message(w, queue_id=2), b"x")
    w.visible(w.topic, 2, 1)
    w.ask(w.pull(queue_id=2))


@case
def a_retry_becomes_a_dead_letter_by_its_count(w):
    retried(w, count=3, limit=2, DELAY="6")
    dead = f"%DLQ%{w.group}"
    w.visible(dead, 0, 1)
    w.ask(w.pull(topic=dead))
    w.ask(GetTopicConfig(topic=dead))
    w.ask(GetTopicConfig(topic=f"%RETRY%{w.group}"))
    w.ask(GetRouteInfo(topic=dead, accept_standard_json_only=True), on="ns")


@case
def a_retry_within_its_count_is_a_retry(w):
    retried(w, count=2, limit=2)
    w.visible(f"%RETRY%{w.group}", 0, 1)
    w.ask(w.pull(topic=f"%RETRY%{w.group}"))
    w.ask(GetTopicConfig(topic=f"%DLQ%{w.group}"))


@case
def a_retry_of_a_group_with_a_lock_is_a_dead_letter(w):
    locking(w, Code.LOCK_BATCH_MQ, "c1", 0)
    retried(w, count=1, limit=16)
    w.visible(f"%DLQ%{w.group}", 0, 1)
    locking(w, Code.UNLOCK_BATCH_MQ, "c1", 0)
    retried(w, count=1, limit=16)
    w.visible(f"%RETRY%{w.group}", 0, 1)


@case
def a_delayed_message(w):
    topic(w)
    w.raw(message(w).code, {}, b"")
    reply = w.ask(message(w, properties=props(UNIQ_KEY="B" * 32, DELAY="1")), b"later")
    w.heard.pop()  # the offset among all delayed messages of the broker
    w.say(reply.code)
    w.ask(GetMaxOffset(topic=w.topic, queue_id=0))
    w.visible(w.topic, 0, 1)
    w.ask(w.pull())


@case
def a_message_by_its_place(w):
    topic(w)
    reply = w.ask(message(w), b"x")
    w.ask(ViewMessage(offset=int(reply.ext["msgId"][-16:], 16)))
