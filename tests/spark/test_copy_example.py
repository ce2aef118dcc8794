"""examples/spark_copy.py: the chosen keys arrive, each in its order, and nothing else."""

import runpy
from pathlib import Path

from orderly import Message
from orderly.spark.discovering import pin
from orderly.spark.source import read
from tests.support.waiting import await_visible_at, patient_producer

COLUMNS = ("sharding_key", "queue_offset", "body")
EXAMPLE = Path(__file__).parents[2] / "examples" / "spark_copy.py"


def test_chosen_keys_are_copied_in_their_order(spark, orderly_namesrv, orderly_topic):
    source, target = orderly_topic(4), orderly_topic(4)
    with patient_producer(orderly_namesrv) as producer:
        for n in range(60):
            producer.submit(Message(source, b"%d" % n, sharding_key=f"key-{n % 5}"))
    copy = runpy.run_path(str(EXAMPLE))["main"]
    await_visible_at(orderly_namesrv)
    assert copy(orderly_namesrv, source, target, "key-1", "key-3") == 24
    await_visible_at(orderly_namesrv)
    copied = {"namesrv": orderly_namesrv, "topic": target}
    rows = read(spark, pin(copied), columns=COLUMNS, **copied)
    found = {}
    for row in rows.orderBy("queue_offset").collect():
        found.setdefault(row.sharding_key, []).append(int(row.body))
    assert found == {f"key-{k}": list(range(k, 60, 5)) for k in (1, 3)}
