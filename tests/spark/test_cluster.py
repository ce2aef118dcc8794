"""On a cluster whose executors have Spark's own Python packages and not ours (how-to/spark.md).

A master and two workers; one program of a user that reads, streams, writes and audits. It is
submitted in both ways of the page: with orderly where it starts, and with the zip.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import sysconfig
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from orderly import Message
from orderly.cli.demo.flights import load_events
from orderly.cli.root import run
from orderly.spark.bundling import ZIP
from tests.support.programs import end
from tests.support.topics import by_key, stored
from tests.support.waiting import eventually, patient_producer

# Spark's own cluster manager on this machine: a master, workers, and what is submitted to them.
#
# Each is a process of its own, ends with the context manager, and listens on 127.0.0.1 only.


LOCAL = "127.0.0.1"
PATIENCE = 900  # seconds: a hang-guard

pytestmark = pytest.mark.nightly

COMPILED = (  # what a cluster's machines are expected to have, and what that needs
    "pyspark", "py4j", "pyarrow", "numpy", "pandas", "python-dateutil", "pytz", "tzdata", "six",
    "matplotlib", "contourpy", "cycler", "fonttools", "kiwisolver", "packaging", "pillow",
    "pyparsing",
)  # fmt: skip


def home():
    import pyspark  # noqa: PLC0415  may be missing

    return Path(pyspark.__file__).parent


def environment(**more):
    known = {"SPARK_HOME": str(home()), "SPARK_LOCAL_IP": LOCAL, "SPARK_DAEMON_MEMORY": "256m"}
    mine = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYSPARK", "SPARK", "PYTHON", "ORDERLY"))
    }
    return mine | known | more


@contextlib.contextmanager
def cluster(folder, workers=2):
    """Yields the address of a master with so many workers of one core each."""
    with contextlib.ExitStack() as stack:
        master = stack.enter_context(
            daemon(folder / "master.log", "master.Master", "--host", LOCAL, "--port", "0")
        )
        url = eventually(lambda: found(r"Starting Spark master at (spark://\S+)", master), PATIENCE)
        for number in range(workers):
            stack.enter_context(
                daemon(
                    folder / f"worker-{number}.log", "worker.Worker", "--host", LOCAL,
                    "--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work-{number}"),
                    url,
                )
            )  # fmt: skip
        eventually(
            lambda: len(re.findall("Registering worker", master.read_text())) == workers, PATIENCE
        )
        yield url


@contextlib.contextmanager
def daemon(log, name, *args):
    """One process of the cluster; yields its log."""
    command = [home() / "bin/spark-class", f"org.apache.spark.deploy.{name}", "--webui-port", "0"]
    with log.open("w") as out:
        process = subprocess.Popen(
            [*command, *args], env=environment(), stdout=out, stderr=subprocess.STDOUT
        )
    try:
        yield log
    finally:
        end(process)


def found(pattern, log):
    match = re.search(pattern, log.read_text())
    return match and match[1]


def submit(master, script, *args, cwd, options=(), **env):
    """Run spark-submit to its end, in a folder; returns it with its code and what it printed."""
    conf = {
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.driver.host": LOCAL,
        "spark.driver.bindAddress": LOCAL,
        "spark.ui.enabled": "false",
        # Both workers are there before the first task.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{PATIENCE}s",
        # Half the CPU where most code runs only once.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    }
    told = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    command = [home() / "bin/spark-submit", "--master", master, *told, *options, script, *args]
    return subprocess.run(
        command, check=False, cwd=cwd, env=environment(**env), capture_output=True, text=True,
        timeout=PATIENCE,
    )  # fmt: skip


def last_words(done):
    """What a program wrote that is no log of Spark's; its stderr comes out on stdout."""
    lines = (line for line in done.stderr.splitlines() if not re.match(r"\S+ \S+ INFO ", line))
    return "\n".join([*lines, done.stdout])[-4000:]


def bare_python(folder):
    """A virtual environment with what is compiled and nothing else: not orderly, not click."""
    subprocess.run(
        [sys.executable, "-m", "venv", "--copies", "--without-pip", folder], check=True, timeout=60
    )
    (own,) = folder.glob("lib/python3*/site-packages")
    theirs = Path(sysconfig.get_path("purelib"))
    for name in COMPILED:
        with contextlib.suppress(PackageNotFoundError):
            for top in {file.parts[0] for file in distribution(name).files} - {"..", "__pycache__"}:
                own.joinpath(top).symlink_to(theirs / top)
    return folder / "bin/python"


PROGRAM = """
import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from orderly.cli.root import run
from orderly.spark.sink import write_ordered
from orderly.spark.source import register

namesrv, flights, streamed, written, folder = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
register(spark)


@udf("string")
def where(_):
    import orderly

    return f"{os.getcwd()} {os.path.abspath(orderly.__file__)}"


rows = spark.read.format("rocketmq").options(namesrv=namesrv, topic=flights).load()
for row in rows.select(where("queue_id")).distinct().collect():
    print("EXECUTOR", row[0])

stream = (
    spark.readStream.format("rocketmq")
    .options(namesrv=namesrv, topic=flights, startingOffsets="earliest")
    .options(maxOffsetsPerTrigger=400, columns="sharding_key,queue_offset,body")
    .load()
)
query = (
    stream.writeStream.format("rocketmq")
    .options(namesrv=namesrv, topic=streamed, orderBy="queue_offset")
    .option("checkpointLocation", f"{folder}/checkpoint")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
print("BATCHES", query.lastProgress["batchId"] + 1)

columns = rows.select("sharding_key", "queue_offset", "body")
write_ordered(columns, topic=written, order_by="queue_offset", namesrv=namesrv)

audit = ["spark", "audit", written, "--namesrv", namesrv, "--out", f"{folder}/audit"]
print("AUDIT", run([*audit, "--seq-property", "ORDERLY_SEQ", "--no-gaps"]))
"""
FLIGHTS, QUEUES = 1000, 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def master(folder):
    with cluster(folder) as url:
        yield url


@pytest.fixture(scope="module")
def python(folder):
    """A Python with pyarrow and pandas, and proof that it has nothing of ours."""
    found = bare_python(folder / "bare")
    for name, code in {"pyarrow, pandas, pyspark": 0, "orderly": 1, "structlog": 1}.items():
        done = subprocess.run(
            [found, "-c", f"import {name}"], check=False, cwd=folder, env=environment(),
            capture_output=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
    return found


@pytest.fixture(scope="module")
def flights(orderly_namesrv, orderly_topic):
    """Departures and arrivals in a topic; its name, and the bodies of each aircraft in order."""
    topic = orderly_topic(QUEUES)
    events, _ = load_events(FLIGHTS)
    messages = [
        Message(topic, event.body(place), sharding_key=event.tail)
        for place, event in enumerate(events)
    ]
    with patient_producer(orderly_namesrv) as producer:
        for each in [producer.submit(message) for message in messages]:
            each.result(60)
    return topic, by_key(messages, lambda message: message.body)


WAYS = ("orderly only where the program starts", "a zip, and orderly nowhere")


@pytest.mark.parametrize("way", WAYS)
def test_executors_without_orderly_read_stream_write_and_audit(
    way, master, python, flights, orderly_namesrv, orderly_topic, tmp_path, folder
):
    topic, sent = flights
    streamed, written = orderly_topic(QUEUES), orderly_topic(QUEUES)
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    env, options = {"PYSPARK_PYTHON": str(python)}, []
    if way == WAYS[0]:
        env["PYSPARK_DRIVER_PYTHON"] = sys.executable
    else:
        assert run(["spark", "bundle", "--out", str(tmp_path / "dist")]) == 0
        options = ["--py-files", tmp_path / "dist" / ZIP]
    names = (topic, streamed, written)
    done = submit(
        master, script, orderly_namesrv, *names, tmp_path, cwd=tmp_path, options=options, **env
    )
    assert done.returncode == 0, last_words(done)

    told = [line.split(maxsplit=1) for line in done.stdout.splitlines() if " " in line]
    executors = [rest.split() for word, rest in told if word == "EXECUTOR"]
    assert len({place for place, _ in executors}) == 2, "both workers ran tasks"
    for place, imported in executors:
        assert place.startswith(str(folder / "work-"))
        assert imported.startswith(f"{place}/{ZIP}/"), "the zip was sent there"
    assert int(dict(told)["BATCHES"]) > 1
    for name in (streamed, written):
        messages = stored(orderly_namesrv, name, FLIGHTS, QUEUES)
        assert by_key(messages, lambda message: message.body) == sent
    assert dict(told)["AUDIT"] == "0", last_words(done)
    result = json.loads((tmp_path / "audit" / "result.json").read_text())
    assert result["figures"]["judged"] == FLIGHTS
    assert "<html" in (tmp_path / "audit" / "report.html").read_text()
