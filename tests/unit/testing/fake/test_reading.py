"""What the contract with the real broker cannot make in a test: old files deleted, exact ages."""

from __future__ import annotations

from orderly.protocol.offsets import UpdateConsumerOffset
from orderly.protocol.pull import QueryConsumeQueue, ViewMessage, decode_consume_queue
from orderly.protocol.statistics import GetTimeSpans, decode_time_spans
from orderly.protocol.stored_message import decode_messages


def log_of(driver):
    return driver.cluster.brokers["broker-a"].store.log("orders", 0)


def age(driver):
    reply = driver.ask(GetTimeSpans(topic="orders", group="g"))
    (span,) = (s for queue, s in decode_time_spans(reply.body).items() if queue.queue_id == 0)
    return span


def place(driver, index):
    reply = driver.ask(QueryConsumeQueue(topic="orders", queue_id=0, index=index))
    assert reply.code == 0
    return decode_consume_queue(reply.body)


def commit(driver, offset):
    driver.cluster.brokers["broker-a"].groups.find("g", create=True)
    header = UpdateConsumerOffset(
        consumer_group="g", topic="orders", queue_id=0, commit_offset=offset
    )
    assert driver.ask(header).code == 0


def fill(driver, count):
    for number in range(count):
        driver.send(b"%d" % number)
        driver.tick(10.0)


def test_a_delay_is_the_age_of_the_first_message_not_finished(driver):
    fill(driver, 3)
    for offset, delay in ((0, 30.0), (1, 20.0), (3, 0.0), (9, 0.0)):
        commit(driver, offset)
        assert age(driver).delay == delay


def test_the_age_of_a_deleted_head_is_not_known(driver):
    fill(driver, 3)
    commit(driver, 1)
    log_of(driver).drop_before(2)
    span = age(driver)
    assert span.delay is None
    assert span.oldest_at == span.newest_at == driver.now - 10.0


def test_a_deleted_index_has_no_place(driver):
    fill(driver, 3)
    log_of(driver).drop_before(2)
    assert place(driver, 1) is None
    part = place(driver, 2)
    assert (part.minimum, part.maximum) == (2, 3)
    reply = driver.ask(ViewMessage(offset=part.entries[0].physical_offset))
    assert [m.body for m in decode_messages(reply.body, "broker-a")] == [b"2"]
