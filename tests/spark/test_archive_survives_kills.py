"""Promise: the page's recipe has each message in Parquet once, through kill -9 and restarts.

What runs here are the lines of docs/how-to/spark.md themselves.
"""

import os
import signal
import subprocess
import sys
from collections import Counter

import pytest

from orderly.testing import FakeBroker
from tests.docs.pages import ROOT, blocks_of
from tests.support.topics import fill
from tests.support.waiting import eventually

TOPIC, QUEUES, EACH = "orders", 4, 100
AT_ONCE = "maxOffsetsPerTrigger=1_000_000"
PROGRAM = """
from pyspark.sql import functions as sf
from orderly.spark.session import get_session

settings = {{"spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1"}}
spark = get_session("killed", master="local[1]", settings=settings)
{recipe}
"""
SOON = 240  # seconds: Spark starts slowly on a busy machine


@pytest.fixture
def broker():
    with FakeBroker() as broker:
        broker.create_topic(TOPIC, queues=QUEUES)
        fill(broker, TOPIC, dict.fromkeys(range(QUEUES), EACH))
        yield broker


@pytest.fixture
def lines(broker, tmp_path):
    """The block of the page with these words, as it is run here."""

    def lines(words):
        (block,) = [it for it in blocks_of("docs/how-to/spark.md") if words in it.text]
        text = block.text.replace("localhost:9876", broker.namesrv)
        return text.replace("/archive/", f"{tmp_path}/")

    return lines


def killed(recipe, folder):
    """Run it in small batches, in a program that dies in the middle."""
    text = recipe.replace(AT_ONCE, "maxOffsetsPerTrigger=8")
    assert text != recipe
    program = folder / "archive.py"
    program.write_text(PROGRAM.format(recipe=text))
    done = folder / "orders" / "_spark_metadata"
    with (folder / "said.txt").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, str(program)], cwd=folder, stdout=said, stderr=said,
            start_new_session=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    try:
        eventually(lambda: process.poll() is not None or (done / "2").exists(), within=SOON)
        assert process.poll() is None, (folder / "said.txt").read_text()
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # the JVM, too
        process.wait()


@pytest.mark.nightly
def test_each_message_is_there_once_after_a_kill(broker, lines, spark, tmp_path):
    recipe, check = lines("writeStream"), lines("wrong.isEmpty")
    names = {"spark": spark}
    exec("from pyspark.sql import functions as sf", names)
    killed(recipe, tmp_path)
    assert 0 < places(spark, tmp_path).total() < QUEUES * EACH, "it died in the middle"

    exec(recipe, names)
    exec(check, names)
    everything = Counter((queue, at) for queue in range(QUEUES) for at in range(EACH))
    assert places(spark, tmp_path) == everything

    fill(broker, TOPIC, {2: 20})
    exec(recipe, names)
    exec(check, names)
    everything.update((2, EACH + at) for at in range(20))
    assert places(spark, tmp_path) == everything


def test_the_check_of_the_page_sees_what_is_missing_and_what_is_there_twice(lines, spark, tmp_path):
    names = {"spark": spark}
    exec("from pyspark.sql import functions as sf", names)
    rows = spark.range(4).selectExpr("'b' AS broker", "0 AS queue_id", "id AS queue_offset")
    for wrong in (rows.where("queue_offset <> 2"), rows.union(rows.limit(1))):
        wrong.write.mode("overwrite").parquet(str(tmp_path / "orders"))
        with pytest.raises(AssertionError):
            exec(lines("wrong.isEmpty"), names)


def places(spark, folder):
    rows = spark.read.parquet(str(folder / "orders")).select("queue_id", "queue_offset").collect()
    return Counter(map(tuple, rows))
