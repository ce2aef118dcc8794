"""What a producer promises its caller."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import CancelledError

import pytest

from orderly.config import ProducerConfig
from orderly.errors import (
    BrokerBusy,
    BrokerError,
    ConfigError,
    ConnectFailed,
    LifecycleError,
    NoPermission,
    PrecedingSendFailed,
    RequestTimeout,
    SendFailed,
    TopicNotFound,
)
from orderly.message import Message
from orderly.model import MessageQueue
from orderly.ordering.outbox import Outbox
from orderly.producer import OrderlyProducer
from orderly.protocol.codes import RequestCode
from orderly.selectors import RoundRobin, hash_mod, numeric_mod, single_queue

PATIENCE = 30.0


def message(body: str, key: str | int | None = "k", **rest) -> Message:
    return Message("T", body.encode(), sharding_key=key, **rest)


def test_a_sent_message_tells_where_it_is_stored(start, broker):
    result = start().send(message("m1"))
    assert result.queue == MessageQueue("T", "a", 107 % 4)  # hash of "k" is 107
    assert (result.queue_offset, result.status, result.offset_message_id) == (0, "SEND_OK", "ID0")
    assert broker.properties[b"m1"]["UNIQ_KEY"] == result.message_id
    assert len(result.message_id) == 32


def test_all_properties_travel(start, broker):
    properties = {"名前": "注文", "emoji": "\U0001f680"}
    start().send(message("m", key="订单", tags="paid", keys=("a", "b"), properties=properties))
    found = broker.properties[b"m"]
    assert found.pop("UNIQ_KEY")
    assert found == {
        **properties,
        "__SHARDINGKEY": "订单",
        "TAGS": "paid",
        "KEYS": "a b",
        "WAIT": "true",
    }


def test_one_message_is_a_single_send_and_what_gathers_meanwhile_a_batch(start, broker):
    producer = start()
    broker.holding = True
    futures = [producer.submit(message(f"m{number}")) for number in range(4)]
    broker.let_go()
    offsets = [future.result(PATIENCE).queue_offset for future in futures]
    assert [request.code for request in broker.requests] == [
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
    ]
    assert broker.requests[1].bodies == [b"m1", b"m2", b"m3"]
    assert offsets == [0, 1, 2, 3]
    assert [future.result().offset_message_id for future in futures] == ["ID0", "ID1", "ID2", "ID3"]


def test_no_queue_ever_has_two_requests_in_flight_and_keys_stay_in_order(start, broker):
    producer = start(config=ProducerConfig(batch_messages=7))
    keys = [f"key-{number}" for number in range(20)]

    def submit(mine: list[str]) -> None:
        for number in range(100):
            for key in mine:
                producer.submit(message(f"{key}:{number}", key=key))

    threads = [threading.Thread(target=submit, args=(keys[i::4],)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert producer.flush(PATIENCE)
    assert broker.most_in_flight == 1
    assert len(broker.stored) == 2000
    for key in keys:
        mine = [body for body in broker.stored if body.startswith(f"{key}:".encode())]
        assert mine == [f"{key}:{number}".encode() for number in range(100)]


def test_a_retriable_failure_is_retried_to_the_same_queue(start, broker):
    errors = [BrokerBusy("busy", code=2), BrokerBusy("busy", code=2), None]
    broker.script = lambda _: errors.pop(0)
    start(config=ProducerConfig(retry_backoff=0.01)).send(message("m"))
    assert broker.stored == [b"m"]
    assert len({request.queue for request in broker.requests}) == 1
    assert len(broker.requests) == 3


def test_a_failed_key_is_held_until_it_is_resumed_while_others_go_on(start, broker):
    producer = start(config=ProducerConfig(retries=0))
    broker.script = lambda request: (
        BrokerBusy("busy", code=2) if request.bodies[0] == b"bad" else None
    )
    with pytest.raises(SendFailed) as failed:
        producer.send(message("bad"))
    assert isinstance(failed.value.__cause__, BrokerBusy)
    with pytest.raises(PrecedingSendFailed):
        producer.send(message("later"))
    producer.send(message("other", key="o"))  # same queue: the hash of "o" is 111
    producer.resume("k")
    producer.send(message("after"))
    assert broker.stored == [b"other", b"after"]


def test_resume_can_be_limited_to_a_topic(start, broker, client, routes_of):
    client.table["U"] = routes_of("U", a=4)
    producer = start(config=ProducerConfig(retries=0))
    broker.script = lambda _: BrokerBusy("busy", code=2)
    for topic in ("T", "U"):
        with pytest.raises(SendFailed):
            producer.send(Message(topic, b"x", sharding_key="k"))
    broker.script = lambda _: None
    producer.resume("k", topic="U")
    producer.send(Message("U", b"y", sharding_key="k"))
    with pytest.raises(PrecedingSendFailed):
        producer.send(Message("T", b"y", sharding_key="k"))


def test_under_single_queue_a_failure_holds_everything_until_resumed_without_a_key(start, broker):
    producer = start(config=ProducerConfig(retries=0), selector=single_queue)
    broker.script = lambda _: BrokerBusy("busy", code=2)
    with pytest.raises(SendFailed, match="of its queue"):
        producer.send(message("a1", key="a"))
    broker.script = lambda _: None
    with pytest.raises(PrecedingSendFailed):
        producer.send(message("b1", key="b"))
    producer.resume()
    producer.send(message("b2", key="b"))
    assert broker.stored == [b"b2"]


def test_after_a_timeout_a_retry_follows_and_the_key_is_not_overtaken(start, broker):
    producer = start(config=ProducerConfig(retry_backoff=0.01))

    def time_out_once(request):
        if len(broker.requests) == 1:
            broker.store(request)  # stored, but nobody hears of it
            return RequestTimeout("no answer")
        return None

    broker.holding = True
    broker.script = time_out_once
    futures = [producer.submit(message(f"m{number}")) for number in range(3)]
    broker.let_go()
    for future in futures:
        future.result(PATIENCE)
    assert broker.stored == [b"m0", b"m0", b"m1", b"m2"]


def test_of_a_refused_batch_only_the_bad_message_fails(start, broker):
    producer = start()
    broker.script = lambda request: (
        BrokerError("illegal", code=13) if b"bad" in request.bodies else None
    )
    broker.holding = True
    futures = {
        body: producer.submit(message(body, key=key))
        for body, key in [("m0", "k"), ("m1", "k"), ("bad", "o"), ("m2", "k"), ("o2", "o")]
    }
    broker.let_go()
    assert producer.flush(PATIENCE)
    assert broker.stored == [b"m0", b"m1", b"m2"]
    assert isinstance(futures["bad"].exception(), SendFailed)
    assert isinstance(futures["o2"].exception(), PrecedingSendFailed)


def test_where_a_proxy_takes_no_batch_each_message_is_sent_alone_from_then_on(start, broker):
    """To a proxy a batch is NORMAL, so a FIFO topic takes its messages only one by one."""
    remark = "CODE: 13  DESC: TopicMessageType validate failed, the expected type is FIFO"
    broker.script = lambda request: (
        BrokerError(remark, code=13, remark=remark) if len(request.bodies) > 1 else None
    )
    producer = start()
    for first in (0, 4):
        broker.holding = True
        futures = [producer.submit(message(f"m{n}")) for n in range(first, first + 4)]
        broker.let_go()
        for future in futures:
            future.result(PATIENCE)
    assert broker.stored == [b"m%d" % number for number in range(8)]
    assert [len(request.bodies) for request in broker.requests] == [1, 3, 1, 1, 1, 1, 1, 1, 1]


def test_a_generic_failure_splits_a_batch_and_retries_a_single_message(start, broker):
    producer = start(config=ProducerConfig(retry_backoff=0.01))
    failures = []

    def script(request):
        if len(request.bodies) > 1 or (request.bodies == [b"m1"] and not failures):
            failures.append(request.bodies)
            return BrokerError("null pointer", code=1)
        return None

    broker.script = script
    broker.holding = True
    futures = [producer.submit(message(f"m{number}")) for number in range(3)]
    broker.let_go()
    for future in futures:
        future.result(PATIENCE)
    assert broker.stored == [b"m0", b"m1", b"m2"]


def test_one_message_is_sent_again_after_a_generic_failure(start, broker):
    broker.script = lambda _: BrokerError("busy", code=1) if len(broker.requests) < 3 else None
    producer = start(config=ProducerConfig(retry_backoff=0.01))
    assert producer.send(message("m")).queue_offset == 0
    assert [request.bodies for request in broker.requests] == [[b"m"]] * 3


def test_a_refusal_of_the_whole_queue_is_not_retried(start, broker):
    broker.script = lambda _: NoPermission("no", code=16)
    with pytest.raises(SendFailed) as failed:
        start().send(message("m"))
    assert isinstance(failed.value.__cause__, NoPermission)
    assert len(broker.requests) == 1


def test_a_missing_connection_is_opened_on_another_thread(start, broker):
    broker.connected = False
    assert start().send(message("m")).queue_offset == 0


def test_a_refused_connection_is_tried_again_and_then_fails_unsent(start, broker):
    broker.connected = False
    broker.refuse_connection = ConnectFailed("connection refused", "a:10911")
    producer = start(config=ProducerConfig(retries=1, retry_backoff=0.01))
    with pytest.raises(SendFailed, match="connection refused"):
        producer.send(message("m"))
    assert broker.requests == []


def test_an_unexpected_failure_while_sending_fails_the_message_and_nothing_hangs(start, broker):
    def explode(*_args, **_kwargs):
        raise ZeroDivisionError

    send, broker.send = broker.send, explode
    producer = start(config=ProducerConfig(retries=0))
    with pytest.raises(ZeroDivisionError):  # as it is: it could be what an alarm raised
        producer.send(message("m"))
    assert producer.flush(PATIENCE), "a thread of the library tried again, and gave it up"
    with pytest.raises(PrecedingSendFailed) as held:
        producer.send(message("n"))
    assert "ZeroDivisionError" in str(held.value.__cause__)
    broker.send = send
    producer.resume("k")
    producer.send(message("n"))


def test_an_interruption_in_the_middle_of_a_send_does_not_block_the_queue(start, broker):
    send = broker.send

    def interrupt(*_args, **_kwargs):
        broker.send = send
        raise KeyboardInterrupt

    broker.send = interrupt
    producer = start(config=ProducerConfig(retry_backoff=0.01))
    with pytest.raises(KeyboardInterrupt):
        producer.submit(message("m"))
    assert producer.flush(PATIENCE), "nobody has to send another message to get it going"
    assert broker.stored == [b"m"]


def test_a_signals_handler_that_sends_inside_a_send_is_told_and_nothing_stands(
    start, broker, monkeypatch
):
    producer, refused = start(), []
    producer.send(message("m0"))
    submit = Outbox.submit

    def rung(self, entry, now):
        monkeypatch.setattr(Outbox, "submit", submit)
        with pytest.raises(LifecycleError, match="signal's handler") as error:
            producer.submit(message("from the handler"))
        refused.append(error)
        return submit(self, entry, now)

    monkeypatch.setattr(Outbox, "submit", rung)
    producer.send(message("m1"))
    assert refused
    producer.send(message("m2"))
    assert broker.stored == [b"m0", b"m1", b"m2"]


def test_a_send_that_gets_no_answer_ends_with_its_timeout(start, broker):
    broker.holding = True
    producer = start(config=ProducerConfig(delivery_timeout=30))
    producer.submit(message("m"))
    with pytest.raises(SendFailed, match="was not sent") as failed:
        producer.send(message("n"), timeout=0.1)
    assert isinstance(failed.value.__cause__, TimeoutError)


def test_an_attempt_takes_no_longer_than_the_message_has_time(start, broker):
    producer = start(config=ProducerConfig(send_timeout=30.0))
    producer.send(message("m"), timeout=25)
    producer.send(message("n"))
    assert broker.requests[0].timeout <= 25
    assert broker.requests[1].timeout == 30.0


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_a_timeout_that_is_none_is_refused(start, timeout):
    with pytest.raises(ConfigError, match="timeout"):
        start().send(message("m"), timeout=timeout)


def test_submit_waits_for_room_and_goes_on_when_there_is_some(start, broker):
    producer = start(config=ProducerConfig(max_pending=2))
    broker.holding = True
    producer.submit(message("m0"))
    producer.submit(message("m1"))
    entered = threading.Event()

    def third() -> None:
        producer.submit(message("m2"))
        entered.set()

    threading.Thread(target=third, daemon=True).start()
    assert not entered.wait(0.1)
    broker.let_go()
    assert entered.wait(PATIENCE)
    assert producer.flush(PATIENCE)
    assert broker.stored == [b"m0", b"m1", b"m2"]


def test_who_finds_no_room_in_time_is_told_and_its_key_is_held(start, broker):
    producer = start(config=ProducerConfig(max_pending=1))
    broker.holding = True
    producer.submit(message("m0"))
    refused = producer.submit(message("m1"), timeout=0.05)
    assert "max_pending" in str(refused.exception(PATIENCE))
    broker.let_go()
    with pytest.raises(PrecedingSendFailed):
        producer.send(message("m2"))
    assert broker.stored == [b"m0"]


def test_a_message_that_is_not_in_flight_can_be_withdrawn(start, broker):
    producer = start()
    broker.holding = True
    first, second, third = (producer.submit(message(f"m{number}")) for number in range(3))
    assert second.cancel()
    assert not first.cancel(), "it is in flight"
    broker.let_go()
    third.result(PATIENCE)
    with pytest.raises(CancelledError):
        second.result()
    assert producer.flush(PATIENCE)
    assert broker.stored == [b"m0", b"m2"]


def test_a_withdrawn_message_stays_withdrawn_when_its_key_fails(start, broker, caplog):
    producer = start(config=ProducerConfig(retries=0))
    broker.holding = True
    first, second, third = (producer.submit(message(f"m{number}")) for number in range(3))
    assert second.cancel()
    broker.script = lambda _: BrokerBusy("busy", code=2)
    broker.let_go()
    assert isinstance(first.exception(PATIENCE), SendFailed)
    assert isinstance(third.exception(PATIENCE), PrecedingSendFailed)
    assert second.cancelled()
    assert "callback" not in caplog.text, "completed once, and nothing was swallowed"


@pytest.mark.parametrize("raised", [ValueError, SystemExit])
def test_a_callback_that_raises_stops_nothing(start, broker, raised, caplog):
    producer = start()

    def explode(_future):
        said = "no account of " + "jane"  # in two, for the stack shows this line
        raise raised(said)

    broker.holding = True
    _, second, third = (producer.submit(message(f"m{number}")) for number in range(3))
    second.add_done_callback(explode)
    broker.let_go()
    assert third.result(PATIENCE).queue_offset == 2, "it was in the same batch"
    producer.send(message("m3"))
    ours = [r.getMessage() for r in caplog.records if r.name.startswith("orderly")]
    told = [text for text in ours if "send.callback_raised" in text]
    assert len(told) == (raised is SystemExit), "the others are told by concurrent.futures"
    assert not any("no account of jane" in text for text in told)


def test_submit_works_in_a_callback_even_if_the_producer_is_full(start, broker):
    producer = start(config=ProducerConfig(max_pending=1))
    futures = []
    done = threading.Event()

    def send_more(_future):
        broker.holding = True
        futures.extend(producer.submit(message(f"n{number}")) for number in range(3))
        done.set()

    broker.holding = True
    producer.submit(message("m")).add_done_callback(send_more)
    broker.let_go()
    assert done.wait(PATIENCE)
    broker.let_go()
    for future in futures:
        future.result(PATIENCE)
    assert broker.stored == [b"m", b"n0", b"n1", b"n2"]


@pytest.mark.parametrize("method", ["send", "flush", "close"])
def test_what_would_wait_for_itself_is_refused_in_a_callback(start, broker, method, until):
    producer = start()
    caught = []

    def call(_future):
        try:
            getattr(producer, method)(*([message("n")] if method == "send" else []))
        except LifecycleError as error:
            caught.append(str(error))

    broker.holding = True
    future = producer.submit(message("m"))
    future.add_done_callback(call)
    broker.let_go()
    future.result(PATIENCE)
    assert producer.flush(PATIENCE)
    until(lambda: caught)
    assert "callback" in caught[0]


def test_keyless_messages_are_spread_over_the_queues(start, broker):
    producer = start()
    for number in range(8):
        producer.send(message(f"m{number}", key=None))
    assert [len(log) for log in broker.logs.values()] == [2, 2, 2, 2]


def test_a_failed_keyless_message_holds_nobody(start, broker):
    producer = start(config=ProducerConfig(retries=0))
    broker.script = lambda request: BrokerBusy("busy", code=2) if b"bad" in request.bodies else None
    with pytest.raises(SendFailed):
        producer.send(message("bad", key=None))
    for number in range(4):
        producer.send(message(f"m{number}", key=None))


def test_an_argument_takes_the_place_of_the_key(start, broker):
    producer = start()
    results = [producer.send(message(f"m{n}", key=None), arg="a") for n in range(3)]
    assert {result.queue.queue_id for result in results} == {1}
    assert "__SHARDINGKEY" not in broker.properties[b"m0"]


def test_a_selector_of_the_call_wins(start):
    producer = start(selector=single_queue)
    assert producer.send(message("m", key=7), selector=numeric_mod).queue.queue_id == 3
    assert producer.send(message("m", key=7)).queue.queue_id == 0


def test_an_int_key_is_hashed_as_text_and_sent_as_text(start, broker):
    result = start().send(message("m", key=1001))
    assert result.queue.queue_id == hash_mod(start_queues(), message("m"), "1001").queue_id
    assert broker.properties[b"m"]["__SHARDINGKEY"] == "1001"


def start_queues():
    return tuple(MessageQueue("T", "a", number) for number in range(4))


def test_a_key_with_an_unordered_selector_is_refused_and_nothing_is_sent(start, broker):
    with pytest.raises(ConfigError, match="keeps no order"):
        start().send(message("m"), selector=RoundRobin())
    assert broker.requests == []


def test_oneway_with_a_key_is_refused(start, client):
    producer = start()
    with pytest.raises(ConfigError, match="submit"):
        producer.send_oneway(message("m"))
    producer.send_oneway(message("m", key=None))
    (sent,) = client.oneways
    assert sent.is_oneway
    assert sent.code == RequestCode.SEND_MESSAGE_V2


def test_a_missing_topic_is_told_with_the_command_that_creates_it(start):
    with pytest.raises(TopicNotFound, match="orderly topic create nowhere"):
        start().send(Message("nowhere", b"x", sharding_key="k"))


def test_large_bodies_are_sent_compressed_and_do_not_share_a_batch_with_plain_ones(start, broker):
    producer = start(config=ProducerConfig(compress_above=1000))
    broker.holding = True
    for body in ("m", "x" * 2000, "y" * 2000, "n"):
        producer.submit(message(body))
    broker.let_go()
    assert producer.flush(PATIENCE)
    assert [(len(r.members), r.header.sys_flag) for r in broker.requests] == [
        (1, 0),
        (2, 0x301),
        (1, 0),
    ]


def test_a_body_that_does_not_shrink_is_sent_as_it_is(start, broker):
    noise = bytes((n * n * 31 + n // 7) % 256 for n in range(50))
    start(config=ProducerConfig(compress_above=10)).send(Message("T", noise, sharding_key="k"))
    assert broker.requests[0].header.sys_flag == 0


def test_failures_are_logged_without_bodies(start, broker, caplog):
    broker.script = lambda _: BrokerBusy("busy", code=2)
    with caplog.at_level(logging.INFO, "orderly"), pytest.raises(SendFailed):
        start(config=ProducerConfig(retries=0)).send(message("secret-body"))
    assert "send.failed" in caplog.text
    assert "secret-body" not in caplog.text


# --- life cycle


def test_close_sends_what_is_pending(start, broker):
    producer = start()
    broker.holding = True
    futures = [producer.submit(message(f"m{number}")) for number in range(3)]
    threading.Timer(0.05, broker.let_go).start()
    producer.close(timeout=PATIENCE)
    assert all(future.done() for future in futures)
    assert broker.stored == [b"m0", b"m1", b"m2"]


def test_close_fails_what_it_cannot_send(start, broker, caplog, until):
    producer = start()
    broker.holding = True
    futures = [producer.submit(message(f"m{number}")) for number in range(3)]
    producer.close(timeout=0.05)
    assert all("closed" in str(future.exception(PATIENCE)) for future in futures)
    broker.let_go()  # a late answer changes nothing
    until(lambda: not [t for t in threading.enumerate() if t.name == "orderly-read-test"])
    assert all(isinstance(future.exception(), SendFailed) for future in futures)
    assert "callback" not in caplog.text, "completed once, and nothing was swallowed"


def test_who_waits_for_room_while_the_producer_closes_is_told(start, broker, until):
    producer = start(config=ProducerConfig(max_pending=1))
    broker.holding = True
    producer.submit(message("m0"))
    outcome = []
    waiting = threading.Thread(
        target=lambda: outcome.append(producer.submit(message("m1", key="o")).exception(PATIENCE))
    )
    waiting.start()
    until(lambda: producer._dispatch.room._space.asleep)
    producer.close(timeout=0.1)
    waiting.join(PATIENCE)
    assert [type(error) for error in outcome] == [SendFailed]


def test_a_producer_must_run_to_send(client):
    producer = OrderlyProducer(client=client)
    with pytest.raises(LifecycleError, match="not started"):
        producer.send(message("m"))
    with producer:
        producer.send(message("m"))
    with pytest.raises(LifecycleError, match="closed"):
        producer.send(message("m"))
    producer.close()
    with pytest.raises(LifecycleError, match="once"):
        producer.start()


def test_a_shared_client_is_started_and_left_open(client):
    with OrderlyProducer("g", client=client):
        assert client.started
        assert client.members == ["g"]
    assert client.members == []
    assert not client.closed


def test_a_client_closed_too_early_fails_sends_instead_of_hanging(start, broker, client):
    producer = start(config=ProducerConfig(retry_backoff=5.0))
    client.schedule.close()
    broker.script = lambda _: BrokerBusy("busy", code=2)
    with pytest.raises(SendFailed):
        producer.send(message("m"))


def test_client_and_namesrv_together_are_refused(client):
    with pytest.raises(ConfigError, match="not both"):
        OrderlyProducer(client=client, namesrv="localhost:9876")


@pytest.mark.parametrize("layout", ["", "tight", "a:0"])
def test_a_layout_that_cannot_be_is_refused(client, layout):
    with pytest.raises(ConfigError, match="layout"):
        OrderlyProducer(client=client, config=ProducerConfig(layout=layout))


def test_threads_are_named_and_end(start, broker, until):
    broker.connected = False
    producer = start()
    producer.send(message("m"))
    names = [t.name for t in threading.enumerate() if t.name.startswith("orderly-send")]
    assert names
    producer.close()
    until(lambda: not [t for t in threading.enumerate() if t.name.startswith("orderly-send")])


@pytest.mark.parametrize(
    ("sent", "options", "said"),
    [
        (b"x", {}, "Message"),
        (None, {}, "Message"),
        (Message("T", b"x"), {"timeout": "3"}, "timeout"),
        (Message("T", b"x"), {"timeout": float("nan")}, "timeout"),
        (Message("T", b"x"), {"timeout": True}, "timeout"),
        (Message("T", b"x"), {"timeout": -1}, "timeout"),
        (Message("T", b"x"), {"selector": 3}, "selector"),
    ],
)
def test_what_is_of_a_wrong_type_is_refused_before_anything_is_sent(
    start, broker, sent, options, said
):
    producer = start()
    with pytest.raises(ConfigError, match=said):
        producer.send(sent, **options)
    if not options:
        with pytest.raises(ConfigError, match=said):
            producer.send_oneway(sent)
    assert broker.requests == []


def test_a_selector_that_is_no_function_is_refused_at_once(client):
    with pytest.raises(ConfigError, match="selector"):
        OrderlyProducer(client=client, selector=3)
