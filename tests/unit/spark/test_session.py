"""The session found, without starting one."""

from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from orderly.errors import ConfigError
from orderly.spark.session import get_session
from orderly.spark.source import RocketMQDataSource, register


class Session:
    """What `register` needs of one."""

    def __init__(self):
        self.sparkContext = SimpleNamespace(master="local", environment={})
        self.read, self.version, self.formats = None, "4.3.0", []
        self.dataSource = SimpleNamespace(register=self.formats.append)


def test_the_session_of_another_thread_is_used_as_it_is(monkeypatch):
    running = Session()
    monkeypatch.setattr(SparkSession, "getActiveSession", classmethod(lambda cls: None))
    monkeypatch.setattr(SparkSession, "_instantiatedSession", running)
    monkeypatch.setenv("JAVA_HOME", "/no/java/here")  # to start one would be an error
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert get_session() is running
    assert running.formats == [RocketMQDataSource]


def test_an_old_spark_under_a_new_pyspark_is_named():
    running = Session()
    running.version = "4.0.1"
    with pytest.raises(ConfigError, match=r"needs PySpark 4\.2 or newer, and this is 4\.0\.1"):
        register(running)
