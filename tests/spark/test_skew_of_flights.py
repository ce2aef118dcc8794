"""The skew job counts a real topic exactly: flights by aircraft, one key too hot, one split."""

import json
from collections import Counter

import pytest
from pyspark.sql import functions as f

from orderly import Message, OrderlyProducer
from orderly.cli.demo.flights import load_events
from orderly.cli.root import run as command_line
from orderly.errors import ConfigError
from orderly.foreign_text import hidden
from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.skew.what_if import Trial, queues_if
from orderly.selectors import SingleQueue, parse_layout
from orderly.spark.jobs.hiding import hidden as hidden_key
from orderly.spark.jobs.output import Output
from orderly.spark.jobs.skew.run import SkewSettings, run
from tests.support.visible import await_visible_at

EVENTS, WHALE, KEYLESS = 3000, 1600, 250
STRAY = 7  # messages of the whale in another queue
NUMBERS = (2, 5, 8, 16)
PARTS = 6


@pytest.fixture(scope="module")
def sent(orderly_namesrv, orderly_topic):
    """A topic of 4 queues, and where each message is: {(key, queue id): messages}."""
    topic = orderly_topic(queues=4)
    keys = [event.tail for event in load_events(EVENTS)[0]]
    keys += ["whale"] * WHALE + [None] * KEYLESS
    with OrderlyProducer(namesrv=orderly_namesrv) as producer:
        futures = [(key, producer.submit(Message(topic, b"x", sharding_key=key))) for key in keys]
        producer.flush()
        home = next(future for key, future in futures if key == "whale").result().queue.queue_id
        other = SingleQueue((home + 1) % 4)
        stray = Message(topic, b"x", sharding_key="whale")
        futures += [("whale", producer.submit(stray, selector=other)) for _ in range(STRAY)]
        counts = Counter((key, future.result().queue.queue_id) for key, future in futures)
    await_visible_at(orderly_namesrv)
    return topic, counts


@pytest.fixture(scope="module")
def result(spark, sent, orderly_namesrv, tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "skew"
    source = {"namesrv": orderly_namesrv, "topic": sent[0], "minPartitions": str(PARTS)}
    with Output(out) as output:
        return run(spark, SkewSettings(source, NUMBERS), output), out


def keyed(counts):
    return {place: n for place, n in counts.items() if place[0] is not None}


def test_every_key_and_queue_is_counted_exactly(result, sent, spark):
    found, counts = result[0], keyed(sent[1])
    by_key = Counter()
    for (key, _), n in counts.items():
        by_key[key] += n
    rows = found.keys.collect()
    assert {row["key"]: row["messages"] for row in rows} == by_key
    assert {row["key"] for row in rows if row["queues"] > 1} == {"whale"}
    for row in rows:
        assert (row["key"], row["queue_id"]) in counts
        assert row["share"] == pytest.approx(row["messages"] / sum(by_key.values()))
    loads = Counter()
    for (_, queue), n in sent[1].items():
        loads[queue] += n
    assert {row["queue_id"]: row["messages"] for row in found.queues.collect()} == loads
    assert spark.read.parquet(str(result[1] / "keys")).count() == len(by_key)


def test_what_if_is_what_the_selector_itself_chooses(result, sent):
    topic, counts = sent
    layout = parse_layout("broker-a:4")
    told = {(each.selector, each.queues): each for each in result[0].findings.what_if}
    assert {number for _, number in told} == {4, *NUMBERS}
    total = sum(keyed(counts).values())
    for number in {4, *NUMBERS}:
        queues = queues_if(layout, topic, number)
        trial, loads, moved = Trial("hash_mod", queues), Counter(), 0
        for (key, queue), n in keyed(counts).items():
            chosen = trial.place(key)
            loads[chosen] += n
            moved += n * (chosen.queue_id != queue)
        found = told["hash_mod", number]
        assert found.skew.top_share == pytest.approx(max(loads.values()) / total)
        assert found.moved == pytest.approx(moved / total)
        whale = (WHALE + STRAY) / total
        assert found.bound == pytest.approx(max(1, whale * number))
        assert found.bound - 1e-9 <= found.pinned <= found.skew.max_over_mean + 1e-9


def test_the_hot_and_split_key_is_the_finding(result):
    found, out = result
    assert found.verdict is Verdict.WARNING
    assert "one key alone has 35 %" in found.headline
    assert "1 key in several queues" in found.headline
    document = json.loads((out / "result.json").read_text())
    assert document["schema"] == "orderly.spark.skew/v1"
    assert document["figures"]["top"][0]["key"] == "whale"
    assert document["figures"]["top"][0]["messages"] == WHALE + STRAY
    assert document["figures"]["keyless"] == KEYLESS
    [[ends]] = [of.values() for of in document["read"]["endingOffsets"].values()]
    assert sum(ends.values()) == found.findings.counted.messages


def test_hashes_in_tables_are_those_of_redacted_keys_everywhere(spark):
    keys = ["whale", "", "ключ", "7", "a b"]
    shown = spark.createDataFrame([(key,) for key in keys], "key string").select(
        hidden_key(f.col("key"))
    )
    assert [row[0] for row in shown.collect()] == [hidden(key) for key in keys]


def test_a_topic_without_keys_is_not_judged_and_several_are_refused(
    spark, orderly_namesrv, orderly_topic, sent, capsys
):
    topic = orderly_topic(queues=2)
    with OrderlyProducer(namesrv=orderly_namesrv) as producer:
        producer.send(Message(topic, b"x"))
    await_visible_at(orderly_namesrv)
    command = ["spark", "skew", "--namesrv", orderly_namesrv, "-q", "-o", "json"]
    assert command_line([*command, "-t", topic, "--what-if", "8"]) == 3
    assert json.loads(capsys.readouterr().out)["figures"]["keyless"] == 1
    both = {"namesrv": orderly_namesrv, "topics": f"{topic},{sent[0]}"}
    with pytest.raises(ConfigError, match="one topic"):
        run(spark, SkewSettings(both))
