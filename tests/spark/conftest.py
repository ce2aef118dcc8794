"""One Spark session for all tests of a run: starting one takes ten seconds."""

import os

import pytest

from orderly.errors import ConfigError

pyspark = pytest.importorskip("pyspark") if not os.environ.get("CI") else __import__("pyspark")

from orderly.spark.session import check_java, get_session  # noqa: E402  needs pyspark


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    try:
        check_java()
    except ConfigError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    home = tmp_path_factory.mktemp("spark")
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
