"""The script in a real Redis decides as the rule does, and runs the effect or nothing."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings
from redis import Redis, ResponseError
from redis.asyncio import Redis as AsyncRedis

from orderly.errors import ConfigError, LockLost, QueueRecreated
from orderly.once import RedisOnce, Verdict
from orderly.once.rule import RECENT, arrival, decide
from orderly.ordering.context import ConsumeContext
from tests.support.messages import QUEUE, message
from tests.support.programs import redis_server

pytestmark = pytest.mark.needs("redis-server")

ADD = ("INCRBY", "n", 1)
ERRORS = {Verdict.STALE_OWNER: LockLost, Verdict.RECREATED: QueueRecreated}


@pytest.fixture(scope="module")
def port():
    with redis_server() as port:
        yield port


@pytest.fixture(params=[False, True], ids=["bytes", "text"])
def client(request, port):
    with Redis(port=port, decode_responses=request.param) as client:
        client.flushall()
        yield client


def sent(offset, key="a", **fields):
    made = message(offset, key)
    made.properties["UNIQ_KEY"] = fields.pop("id", made.message_id)
    return replace(made, **fields)


def owner(token=1, generation=0):
    ownership = SimpleNamespace(token=token, generation_of=lambda key, replayed: generation)
    return ConsumeContext(QUEUE, "g", ownership=ownership)


def counted(client):
    return int(client.get("n") or 0)


def test_an_effect_is_had_once_whatever_comes_again(client):
    once = RedisOnce()
    came = [sent(0), sent(3), sent(3), sent(0), sent(4, id="id-3"), sent(5), sent(0, key="b")]
    verdicts = [once.apply(client, each, owner(), ADD) for each in came]
    assert [verdict.value for verdict in verdicts] == [
        "apply", "apply", "repeat", "repeat", "duplicate", "apply", "apply",
    ]  # fmt: skip
    assert counted(client) == 4


@st.composite
def arrivals(draw):
    """Messages with few values each, so that all of them meet; more ids than a row keeps."""
    offset = draw(st.integers(0, 25))
    token = draw(st.none() | st.integers(0, 2) | st.integers(2**62, 2**62 + 1))
    stored = draw(st.sampled_from([1.0, 2.0, 2.001, 9.5]))
    made = sent(offset, id=f"m{draw(st.integers(0, 25))}", store_time=stored)
    if draw(st.integers(0, 9)) == 0:
        del made.properties["UNIQ_KEY"]
    return made, owner(token)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(arrivals(), max_size=40), st.booleans())
def test_it_decides_as_the_rule_does(port, came, rising):
    if rising:
        came = sorted(came, key=lambda each: each[0].queue_offset)
    with Redis(port=port) as client:
        client.flushall()
        row, applied = None, 0
        for each, context in came:
            verdict, row = decide(row, arrival(each, context))
            applied += bool(verdict)
            if verdict in ERRORS:
                with pytest.raises(ERRORS[verdict]):
                    RedisOnce().apply(client, each, context, ADD)
            else:
                assert RedisOnce().apply(client, each, context, ADD) is verdict
            (name,) = client.keys("orderly:once:*")
            kept = {field.decode(): value.decode() for field, value in client.hgetall(name).items()}
            assert kept.get("token") == (None if row.token is None else str(row.token))
            assert (int(kept["offset"]), int(kept["stored_at"])) == (row.offset, row.stored_at)
            assert tuple(kept["recent"].split()) == row.recent
        assert counted(client) == applied


def test_a_topic_made_anew_is_not_taken_for_repeats(client):
    once = RedisOnce()
    once.apply(client, sent(9, id="m9", store_time=1.0), owner(), ADD)
    assert once.apply(client, sent(2, id="m9", store_time=9.5), owner(), ADD) is Verdict.REPEAT
    anew = sent(2, id="new", store_time=9.5)
    with pytest.raises(QueueRecreated, match="generation=1"):
        once.apply(client, anew, owner(), ADD)
    assert once.apply(client, anew, owner(generation=1), ADD) is Verdict.APPLY, "by key it is known"
    assert RedisOnce(generation=2).apply(client, sent(2), owner(), ADD) is Verdict.APPLY


def test_more_ids_than_a_row_keeps_push_out_the_oldest(client):
    once = RedisOnce()
    for n in range(RECENT + 1):
        once.apply(client, sent(n), owner(), ADD)
    assert once.apply(client, sent(RECENT + 50, id="id-1"), owner(), ADD) is Verdict.DUPLICATE
    assert once.apply(client, sent(RECENT + 51, id="id-0"), owner(), ADD) is Verdict.APPLY


def test_large_numbers_are_exact(client):
    once, offset = RedisOnce(), 2**52 + 1
    assert once.apply(client, sent(offset), owner(offset), ADD) is Verdict.APPLY
    assert once.apply(client, sent(offset), owner(offset), ADD) is Verdict.REPEAT
    assert once.apply(client, sent(offset + 1), owner(offset + 1), ADD) is Verdict.APPLY


def test_several_commands_with_any_bytes_are_one(client):
    commands = [ADD, ("SET", "raw", b"\x00\xff\r\n"), ("HSET", "h", "a", 1.5, "b", "")]
    assert RedisOnce().apply(client, sent(0), owner(), *commands)
    with Redis(port=client.connection_pool.connection_kwargs["port"]) as raw:
        assert raw.get("raw") == b"\x00\xff\r\n"
        assert raw.hgetall("h") == {b"a": b"1.5", b"b": b""}


def test_a_command_that_fails_leaves_the_message_to_come_again(client):
    client.set("n", "no number")
    with pytest.raises(ResponseError, match="after 0 of its commands"):
        RedisOnce().apply(client, sent(0), owner(), ADD)
    client.set("n", 5)
    assert RedisOnce().apply(client, sent(0), owner(), ADD) is Verdict.APPLY
    assert counted(client) == 6


@pytest.mark.parametrize("commands", [(), ((),), ("INCR n",)])
def test_a_call_without_an_effect_is_refused(client, commands):
    with pytest.raises(ConfigError, match="INCRBY"):
        RedisOnce().apply(client, sent(0), owner(), *commands)


def test_members_at_the_same_time_have_each_effect_once(client):
    def member(_):
        return [RedisOnce().apply(client, sent(n), owner(), ADD) for n in range(50)]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(member, range(4)))
    assert counted(client) == 50
    assert [sum(map(bool, verdicts)) for verdicts in zip(*found, strict=True)] == [1] * 50


def test_a_redacted_key_is_not_stored(client):
    RedisOnce(redact=True).apply(client, sent(0, key="alice"), owner(), ADD)
    RedisOnce(generation=1).apply(client, sent(0, key="bob"), owner(), ADD)
    names = str(client.keys())
    assert "alice" not in names
    assert "bob" in names


def test_asyncio_does_the_same(client, port):
    async def act():
        async with AsyncRedis(port=port) as aredis:
            once = RedisOnce()
            verdicts = [await once.apply_async(aredis, sent(n), owner(), ADD) for n in (0, 0, 1)]
            with pytest.raises(LockLost):
                await once.apply_async(aredis, sent(2), owner(0), ADD)
            return verdicts

    assert asyncio.run(act()) == [Verdict.APPLY, Verdict.REPEAT, Verdict.APPLY]
    assert counted(client) == 2
