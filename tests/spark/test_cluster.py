"""The jobs on a cluster: a master and two workers, as docs/how-to/spark-on-a-cluster.md says."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from orderly import Message, OrderlyProducer
from orderly.cli.root import run
from orderly.errors import ConfigError
from orderly.spark.bundling import SCRIPT, ZIP
from orderly.spark.session import check_java
from tests.support.programs import end
from tests.support.waiting import eventually

# Spark's own cluster manager on this machine: a master, workers, and what is submitted to them.
#
# Each is a process of its own, ends with the context manager, and listens on 127.0.0.1 only.


LOCAL = "127.0.0.1"
PATIENCE = 240  # seconds: a hang-guard

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
        "spark.sql.shuffle.partitions": "2",
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
    theirs = Path(sysconfig.get_path("purelib"))
    for name in COMPILED:
        with contextlib.suppress(PackageNotFoundError):
            for top in {file.parts[0] for file in distribution(name).files} - {"..", "__pycache__"}:
                packages(folder).joinpath(top).symlink_to(theirs / top)
    return folder / "bin/python"


def packages(environment):
    (found,) = environment.glob("lib/python3*/site-packages")
    return found


def packed(environment, archive, target):
    """Put a zip into an environment, and all into `target` (how-to/spark-on-a-cluster.md)."""
    with zipfile.ZipFile(archive) as contents:
        contents.extractall(packages(environment))
    with tarfile.open(target, "w:gz", compresslevel=1) as tar:
        tar.add(environment, arcname=".")
    return target


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
    with cluster(folder) as url:
        yield url


@pytest.fixture(scope="module")
def bundle(folder):
    assert run(["spark", "bundle", "--out", str(folder / "dist")]) == 0
    return folder / "dist"


@pytest.fixture(scope="module")
def python(folder):
    return bare_python(folder / "bare")


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
    done = submit(
        master, bundle / SCRIPT, "audit", topic, "--namesrv", orderly_namesrv,
        "--seq-property", "seq", "--no-gaps", "--out", out,
        options=["--py-files", bundle / ZIP], cwd=folder,
        PYSPARK_PYTHON=str(python),
    )  # fmt: skip
    assert done.returncode == 0, last_words(done)
    read = json.loads((out / "result.json").read_text())["read"]
    assert sum(read["endingOffsets"][topic]["broker-a"].values()) == 1000
    assert "<html" in (out / "report.html").read_text()
    assert len(list(folder.glob("work-*/app-*/*"))) == 2, "both workers took part"


def test_a_packed_environment_works_where_it_was_not_made(
    master, bundle, python, topic, orderly_namesrv, folder
):
    made = folder / "made"
    shutil.copytree(python.parents[1], made, symlinks=True)
    archive = packed(made, bundle / ZIP, folder / "env.tar.gz")
    shutil.rmtree(made)
    with tarfile.open(archive) as tar:
        tar.extractall(folder / "here/env", filter="tar")
    script = folder / "reader.py"
    script.write_text(READER)
    done = submit(
        master, script, orderly_namesrv, topic,
        options=["--archives", f"{archive}#env"], cwd=folder / "here",
        PYSPARK_PYTHON="./env/bin/python",
    )  # fmt: skip
    assert done.returncode == 0, last_words(done)
    (line,) = (line.split() for line in done.stdout.splitlines() if line.startswith("FOUND"))
    assert line[1] == "1000"
    for path in line[2:]:
        assert path.startswith(str(folder / "work-")), path
        assert "/env/" in path
