"""Promise: a replay sends each selected message once, in its key's old order, through crashes."""

import shutil
from dataclasses import replace

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql.functions import expr, lit

from orderly.errors import ConfigError
from orderly.message import Message
from orderly.model import MessageQueue
from orderly.monitoring.backlog.states import Verdict
from orderly.protocol.properties import ATTEMPT
from orderly.spark.jobs.replay import run as job
from orderly.spark.jobs.replay.run import ReplaySettings, run
from orderly.spark.jobs.replay.selection import (
    KEY,
    PLACE,
    SEQ,
    ReplaySelection,
    keys_as_numbers,
    numbered,
)
from orderly.spark.stamps import ID
from orderly.testing.oracle import Delivered, Sent, judge
from tests.support.consuming import unique
from tests.support.topics import pulled
from tests.support.waiting import await_visible, eventually, patient_client, patient_producer

KEYS = 9


class Died(BaseException):
    """The process ends here."""


@pytest.fixture(scope="module")
def client(orderly_namesrv):
    with patient_client(orderly_namesrv) as client:
        yield client


@pytest.fixture(scope="module")
def archived(orderly_namesrv, orderly_topic, client, spark, tmp_path_factory):
    """A table of 200 messages; the topic grew after 120, so that keys lie in several queues."""
    topic = orderly_topic(queues=2)
    send(orderly_namesrv, topic, range(120))
    grow(client, topic, 5)
    send(orderly_namesrv, topic, range(120, 200))
    eventually(lambda: len(pulled(client, topic)) == 200)
    directory = str(tmp_path_factory.mktemp("archive") / "a")
    options = {"namesrv": orderly_namesrv, "topic": topic, "includeProperties": "true"}
    spark.read.format("rocketmq").options(**options).load().write.parquet(directory)
    return ReplaySettings(directory, topic, {"namesrv": orderly_namesrv})


def grow(client, topic, queues):
    broker = client.routes.refresh(topic).brokers[0]
    present = client.admin.topic_config(topic, broker)
    client.admin.grow_topic(topic, broker, queues, present)
    eventually(lambda: len(client.routes.refresh(topic).write_queues()) == queues)


def send(namesrv, topic, numbers):
    with patient_producer(namesrv) as producer:
        futures = [
            producer.submit(Message(topic, b"%d" % n, f"key-{n % KEYS}", "t", (), {"n": f"{n}"}))
            for n in numbers
        ]
        for future in futures:
            future.result()


def check_order(messages, numbers):
    """Each number once, each key's numbers in order, as the oracle sees it."""
    by_number = {int(message.body): message for message in messages}
    sent = [record(Sent, by_number[n]) for n in sorted(numbers)]
    verdict = judge(sent, [record(Delivered, message) for message in messages])
    assert (verdict.lost, verdict.disorder, verdict.duplicates, verdict.unknown) == (0, 0, 0, 0)
    assert (verdict.sent, verdict.delivered) == (len(numbers), len(numbers))


def record(kind, message):
    queue = message.queue
    return kind(message.sharding_key, int(message.body), queue, message.queue_offset)


def test_a_replay_that_broke_off_goes_on_where_it_was(
    archived, orderly_topic, client, spark, tmp_path, monkeypatch
):
    target = orderly_topic(queues=3)
    table = tmp_path / "growing"
    shutil.copytree(archived.table, table)
    settings = replace(archived, topic=target, table=str(table), directory=str(tmp_path / "replay"))

    dry = run(spark, replace(settings, directory=""))
    assert (dry.due, dry.extent.keys, dry.sent, dry.verdict) == (200, KEYS, None, Verdict.OK)
    assert dry.extent.moved > 0, "the topic's growth moved keys"
    assert pulled(client, target) == [], "a dry run sends nothing"

    settings = replace(settings, send=True)
    with monkeypatch.context() as patched:
        whole = job.write_ordered
        patched.setattr(job, "write_ordered", half_of(whole))
        half = run(spark, settings)
        assert (half.sent, half.verdict) == (200, Verdict.CRITICAL)
        assert half.missing == 100
        assert "run the same command again" in half.headline
        patched.setattr(job, "write_ordered", half_of(whole, ends=Died))
        with pytest.raises(Died):
            run(spark, settings)
    await_visible(client)
    assert len(pulled(client, target)) == 150
    with pytest.raises(ConfigError, match="began with another selection"):
        run(spark, replace(settings, selection=ReplaySelection(keys=("key-1",))))

    behind = spark.read.parquet(archived.table).limit(7)  # a stream goes on with the table
    behind.selectExpr("* EXCEPT (queue_offset)", "queue_offset + 1000 AS queue_offset").write.mode(
        "append"
    ).parquet(str(table))
    rest = run(spark, settings)
    await_visible(client)
    copies = pulled(client, target)
    check_order(copies, range(200))
    assert (rest.before, rest.sent, rest.missing, rest.repeated) == (150, 50, 0, 0)
    one = next(message for message in copies if int(message.body) == 150)
    assert (one.tags, one.properties["n"]) == ("t", "150")
    assert one.properties[ID].startswith(f"{archived.topic}/broker-a/")
    with pytest.raises(ConfigError, match="finished output"):
        run(spark, settings)


def test_what_is_sent_is_new(archived, orderly_topic, client, spark, tmp_path):
    """It has an id of its own, and no mark of a repeated send."""
    marked, target = str(tmp_path / "marked"), orderly_topic(queues=1)
    rows = spark.read.parquet(archived.table)
    mark = f"map('{ATTEMPT}', concat('2@', unix_millis(born_ts)))"
    rows.withColumn("properties", expr(f"map_concat(properties, {mark})")).write.parquet(marked)
    settings = replace(archived, table=marked, topic=target, send=True)
    keys = ReplaySelection(keys=("key-1",))
    found = run(spark, replace(settings, selection=keys, directory=str(tmp_path / "replay")))
    await_visible(client)
    sent = pulled(client, target)
    assert len(sent) == found.sent > 0
    former = {message.message_id for message in pulled(client, archived.topic)}
    assert former.isdisjoint(message.message_id for message in sent)
    assert not any(ATTEMPT in message.properties for message in sent)
    assert {message.properties["n"] for message in sent} == {f"{n}" for n in range(1, 200, KEYS)}


def half_of(write, ends=None):
    """Send the earlier half of the rows, and no more; then die, if so told.

    It counts rows: several keys' messages of one millisecond have the same position.
    """

    def send_half(rows, **options):
        places = [row[PLACE] for row in rows.orderBy(SEQ, PLACE).select(PLACE).collect()]
        write(rows.where(rows[PLACE].isin(places[: len(places) // 2])), **options)
        if ends is not None:
            raise ends

    return send_half


def test_a_key_is_a_number_only_if_a_producer_would_write_it_so(spark):
    rows = spark.createDataFrame([("7",), ("007",), ("x",), ("-3",)], f"{KEY} string")
    assert [row[0] for row in keys_as_numbers(rows).collect()] == [7, None, None, -3]


def test_a_clock_that_went_back_turns_no_queue_round_where_a_key_lies_in_two(spark):
    rows = [("k", "t", "b", 0, 0, 10), ("k", "t", "b", 0, 1, 5), ("k", "t", "b", 1, 0, 7)]
    names = f"{KEY} string, topic string, broker string, queue_id int, queue_offset long, at long"
    stored = spark.createDataFrame(rows, names).selectExpr("*", "timestamp_seconds(at) AS store_ts")
    found = numbered(stored.drop("at")).orderBy(SEQ).collect()
    assert [(row.queue_id, row.queue_offset) for row in found] == [(1, 0), (0, 0), (0, 1)]
    assert len({row[SEQ] for row in found}) == 3


def test_what_a_table_leaves_out_may_be_what_a_group_has_consumed(
    archived, client, spark, tmp_path
):
    """A table of one key's messages does not tell what lies between them."""
    whole = spark.read.parquet(archived.table)
    few = tmp_path / "few"
    whole.where("sharding_key = 'key-1'").write.parquet(str(few))
    settings = replace(archived, table=str(few))
    group = unique("shipping")
    pulled(client, archived.topic, group)
    first = whole.where("sharding_key = 'key-1'").orderBy("store_ts").first()
    queue = MessageQueue(first.topic, first.broker, first.queue_id)
    commit(client, group, {queue: first.queue_offset + 1})
    assert run(spark, settings).objections == (), "it has consumed what the table holds"
    commit(client, group, {queue: first.queue_offset + 2})
    dry = run(spark, settings)
    assert [(it.group, it.queue, it.known) for it in dry.objections] == [(group, queue, False)]
    assert (
        run(spark, replace(archived, selection=ReplaySelection(keys=("key-1",)))).objections == ()
    ), "the whole table says that it was another key's"


def test_what_groups_have_consumed_is_looked_up_in_the_namespace(
    client, orderly_namesrv, spark, tmp_path
):
    """The sink and the source put a bare name into the namespace of the settings file."""
    bare, group = unique("again"), unique("shop%shipping")
    topic = f"shop%{bare}"
    client.admin.create_topic(topic, 1)
    send(orderly_namesrv, topic, range(2 * KEYS))
    await_visible(client)
    options = {"namesrv": orderly_namesrv, "topic": topic, "includeProperties": "true"}
    stored = str(tmp_path / "stored")
    spark.read.format("rocketmq").options(**options).load().write.parquet(stored)
    pulled(client, topic, group)
    queue = MessageQueue(topic, "broker-a", 0)
    commit(client, group, {queue: 2 * KEYS})
    file = tmp_path / "settings.toml"
    file.write_text('namespace = "shop"\n')
    access = {"namesrv": orderly_namesrv, "settingsFile": str(file)}
    early = ReplaySelection(end={queue: KEYS})
    dry = run(spark, ReplaySettings(stored, bare, access, early))
    assert [(it.group, it.queue, it.known) for it in dry.objections] == [(group, queue, True)]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda rows: rows.drop("store_ts", "body"), "no column store_ts, body"),
        (lambda rows: rows.union(rows.limit(1)), "or share one"),
        (lambda rows: rows.withColumn("queue_offset", lit(None).cast("long")), "have no place"),
        (lambda rows: rows.union(rows.withColumn("topic", lit("other"))), "several topics"),
    ],
)
def test_a_table_that_does_not_say_what_to_send_is_refused(archived, spark, tmp_path, change, why):
    path = str(tmp_path / "table")
    change(spark.read.parquet(archived.table)).write.parquet(path)
    with pytest.raises(ConfigError, match=why):
        run(spark, replace(archived, table=path))


def test_what_is_no_table_is_refused(archived, spark, tmp_path):
    with pytest.raises(ConfigError, match="cannot be read as parquet"):
        run(spark, replace(archived, table=str(tmp_path / "none")))


def test_into_its_own_topic_only_if_no_group_has_consumed_later_messages(
    archived, client, spark, tmp_path
):
    early = [message for message in pulled(client, archived.topic) if int(message.body) < 60]
    offsets = {}
    for message in early:
        offsets[message.queue] = max(offsets.get(message.queue, 0), message.queue_offset + 1)
    chosen = ReplaySelection(end=offsets, places=table(tmp_path, early[1:]))
    settings = replace(archived, selection=chosen, send=True, directory=str(tmp_path / "unused"))
    group = unique("shipping")
    pulled(client, archived.topic, group)  # brokers make a group with its first pull
    commit(client, group, offsets)
    dry = run(spark, replace(settings, send=False, directory=""))
    assert (dry.due, dry.objections) == (len(early) - 1, ()), "nothing later is consumed"

    hole = next(message for message in early if int(message.body) == 30)
    (tmp_path / "holed").mkdir()
    holed = table(tmp_path / "holed", [message for message in early if message is not hole])
    selection = ReplaySelection(end=offsets, places=holed)
    dry = run(spark, replace(settings, selection=selection, send=False, directory=""))
    assert [(it.queue, it.known) for it in dry.objections] == [(hole.queue, True)], (
        "it is left out, consumed, and behind messages of its key that would be sent again"
    )

    commit(client, group, {queue: at + 20 for queue, at in offsets.items()})
    with pytest.raises(ConfigError, match=f"group {group} has consumed later messages"):
        run(spark, settings)
    assert len(pulled(client, archived.topic)) == 200, "nothing was sent"


def table(directory, messages):
    """The places of messages, as a table."""
    rows = [
        {
            "topic": it.queue.topic,
            "broker": it.queue.broker_name,
            "queue_id": it.queue.queue_id,
            "queue_offset": it.queue_offset,
        }
        for it in messages
    ]
    parquet.write_table(pa.Table.from_pylist(rows), directory / "places.parquet")
    return str(directory / "places.parquet")


def commit(client, group, offsets):
    for queue, offset in offsets.items():
        client.brokers.update_offset(group, queue, offset)
