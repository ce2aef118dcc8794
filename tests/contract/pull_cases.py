"""Pulls: by offset, by tag, refused, long ones."""

from orderly.protocol.codes import RequestCode as Code
from orderly.protocol.heartbeat import MessageModel
from orderly.protocol.send import SendBatch, encode_batch
from tests.contract.steps import (
    BORN,
    case,
    props,
    sent,
    settings,
    stored,
    topic,
)


@case
def pulls_by_offset(w):
    sent(w, "a", "b", None)
    for offset in (0, 2, 3, 4, 1000, -1):
        w.ask(w.pull(offset))
    w.ask(w.pull(0, queue_id=1))
    w.ask(w.pull(5, queue_id=1))
    w.ask(w.pull(0, max_msg_nums=2))


@case
def pulls_by_tag(w):
    sent(w, "Aa", "b", "BB", None)
    for expression in ("b", "Aa", "b || Aa", "nobody", "", "*"):
        w.ask(w.pull(subscription=expression))
    w.ask(w.pull(subscription="Aa", max_msg_nums=1))
    for odd in (" || ", "||", "* || b", "|"):
        w.ask(w.pull(subscription=odd))


@case
def a_pull_is_limited(w):
    topic(w)
    members = [(b"x", "", 0)] * 40
    fields = {"producer_group": "p", "topic": w.topic, "queue_id": 0, "born_timestamp": BORN}
    w.ask(SendBatch(**fields), encode_batch(members))
    w.visible(w.topic, 0, 40)
    w.ask(w.pull(max_msg_nums=64))
    w.ask(SendBatch(**fields | {"queue_id": 1}), encode_batch([(b"x" * 100_000, "", 0)] * 4))
    w.visible(w.topic, 1, 4)
    w.ask(w.pull(max_msg_nums=64, queue_id=1))


@case
def pulls_that_are_refused(w):
    sent(w, "a")
    w.ask(w.pull(queue_id=2))
    w.ask(w.pull(queue_id=-1))
    w.ask(w.pull(topic=w.topic + "-other"))
    w.ask(w.pull(expression_type="SQL92", subscription="a = 1"))
    w.ask(w.pull(flags=0))
    w.raw(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=settings(w, consume_enabled=False))
    w.ask(w.pull())


@case
def pulls_by_the_groups_heartbeat(w):
    sent(w, "a", "b")
    w.heartbeat(w.topic, tags="a", version=5)
    w.ask(w.pull(flags=0, sub_version=5))
    w.ask(w.pull(flags=0, sub_version=6))
    w.heartbeat(w.topic, tags="b", version=4)
    w.ask(w.pull(flags=0, sub_version=5))
    w.heartbeat(w.topic, tags="b", version=7)
    w.ask(w.pull(flags=0, sub_version=5))
    w.heartbeat(w.topic + "-other", version=7)
    w.ask(w.pull(flags=0, sub_version=5))
    w.raw(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=settings(w, broadcast_enabled=False))
    w.heartbeat(w.topic, version=8, model=MessageModel.BROADCASTING)
    w.ask(w.pull(flags=0, sub_version=5))


@case
def a_pull_that_commits(w):
    sent(w, "a", "b")
    w.ask(w.pull(flags=4 | 1, commit_offset=1))
    stored(w, zero=False)


@case
def a_long_pull_is_woken_by_what_it_wants(w):
    sent(w, "a")
    waiting = w.later(w.pull(1, flags=4 | 2, subscription="a", suspend_timeout_millis=15000))
    members = [(b"%d" % i, props(UNIQ_KEY=f"{i:032X}", TAGS=tag), 0) for i, tag in enumerate("ba")]
    fields = {"producer_group": "p", "topic": w.topic, "queue_id": 0, "born_timestamp": BORN}
    w.ask(SendBatch(**fields), encode_batch(members))
    w.note(waiting)


@case
def a_long_pull_ends(w):
    topic(w)
    w.note(w.later(w.pull(flags=4 | 2, suspend_timeout_millis=100)))
