"""One Spark session for all tests of a run: starting one takes ten seconds."""

import os

import pytest

pyspark = pytest.importorskip("pyspark") if not os.environ.get("CI") else __import__("pyspark")

from orderly.spark.session import get_session  # noqa: E402  needs pyspark
from tests.support.waiting import PATIENCE  # noqa: E402  as that

PATIENT = {f"ORDERLY_{name}_TIMEOUT": str(PATIENCE) for name in ("CONNECT", "REQUEST")}


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Sources, sinks and jobs wait for every answer here: a broker is only slow."""
    for name, seconds in PATIENT.items():
        monkeypatch.setenv(name, seconds)


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    home = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patched:
        for name, seconds in PATIENT.items():  # Spark's processes have it, too
            patched.setenv(name, seconds)
        session = get_session(
            "orderly-tests",
            master="local[2]",
            settings={
                "spark.ui.enabled": "false",
                "spark.sql.shuffle.partitions": "4",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.driver.host": "127.0.0.1",
                "spark.driver.memory": "2g",
                "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",  # half the CPU
                "spark.local.dir": str(home),
                "spark.sql.warehouse.dir": str(home / "warehouse"),
            },
        )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
