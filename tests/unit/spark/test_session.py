"""The session found, without starting one."""

from pyspark.sql import SparkSession

from orderly.spark.session import get_session


def test_the_session_of_another_thread_is_used_as_it_is(monkeypatch):
    running = object()
    monkeypatch.setattr(SparkSession, "getActiveSession", classmethod(lambda cls: None))
    monkeypatch.setattr(SparkSession, "_instantiatedSession", running)
    monkeypatch.setenv("JAVA_HOME", "/no/java/here")  # to start one would be an error
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert get_session() is running
