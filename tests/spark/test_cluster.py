"""The jobs on a cluster: a master and two workers, as docs/how-to/spark-on-a-cluster.md says."""

import json
import os
import shutil
import tarfile

import pytest

from orderly import Message, OrderlyProducer
from orderly.cli.root import run
from orderly.errors import ConfigError
from orderly.spark.bundling import SCRIPT, ZIP
from orderly.spark.session import check_java
from tests.support import spark_cluster

READER = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

spark = SparkSession.builder.getOrCreate()
topic = spark.read.format("rocketmq").option("namesrv", sys.argv[1]).option("topic", sys.argv[2])
rows = topic.option("columns", "queue_id,sharding_key").load()

@udf("string")
def where(_):
    import orderly, pyspark_orderly
    return sys.executable + " " + orderly.__file__

found = {row[0] for row in rows.select(where("queue_id")).distinct().collect()}
print("FOUND", rows.count(), *sorted(found))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def master(folder):
    try:
        check_java()
    except ConfigError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    with spark_cluster.cluster(folder) as url:
        yield url


@pytest.fixture(scope="module")
def bundle(folder):
    assert run(["spark", "bundle", str(folder / "dist")]) == 0
    return folder / "dist"


@pytest.fixture(scope="module")
def python(folder):
    return spark_cluster.bare_python(folder / "bare")


@pytest.fixture(scope="module")
def topic(orderly_namesrv, orderly_topic):
    name = orderly_topic(4)
    with OrderlyProducer(namesrv=orderly_namesrv) as producer:
        sent = [
            producer.submit(
                Message(name, b"x", sharding_key=f"key-{n % 17}", properties={"seq": str(n)})
            )
            for n in range(1000)
        ]
        for each in sent:
            each.result(30)
    return name


def test_a_zip_and_a_script_are_enough_beside_what_is_compiled(
    master, bundle, python, topic, orderly_namesrv, folder
):
    out = folder / "audit"
    done = spark_cluster.submit(
        master, bundle / SCRIPT, "audit", "--namesrv", orderly_namesrv, "--topic", topic,
        "--seq-property", "seq", "--no-gaps", "--out", out,
        options=["--py-files", bundle / ZIP], cwd=folder,
        PYSPARK_PYTHON=str(python),
    )  # fmt: skip
    assert done.returncode == 0, spark_cluster.last_words(done)
    read = json.loads((out / "result.json").read_text())["read"]
    assert sum(read["endingOffsets"][topic]["broker-a"].values()) == 1000
    assert "<html" in (out / "report.html").read_text()
    assert len(list(folder.glob("work-*/app-*/*"))) == 2, "both workers took part"


def test_a_packed_environment_works_where_it_was_not_made(
    master, bundle, python, topic, orderly_namesrv, folder
):
    made = folder / "made"
    shutil.copytree(python.parents[1], made, symlinks=True)
    archive = spark_cluster.packed(made, bundle / ZIP, folder / "env.tar.gz")
    shutil.rmtree(made)
    with tarfile.open(archive) as tar:
        tar.extractall(folder / "here/env", filter="tar")
    script = folder / "reader.py"
    script.write_text(READER)
    done = spark_cluster.submit(
        master, script, orderly_namesrv, topic,
        options=["--archives", f"{archive}#env"], cwd=folder / "here",
        PYSPARK_PYTHON="./env/bin/python",
    )  # fmt: skip
    assert done.returncode == 0, spark_cluster.last_words(done)
    (line,) = (line.split() for line in done.stdout.splitlines() if line.startswith("FOUND"))
    assert line[1] == "1000"
    for path in line[2:]:
        assert path.startswith(str(folder / "work-")), path
        assert "/env/" in path
