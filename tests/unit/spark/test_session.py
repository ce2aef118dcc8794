"""The session found, without starting one."""

from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from orderly.errors import ConfigError
from orderly.spark.session import get_session, java_version
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


@pytest.mark.parametrize(("line", "version"), [("17.0.15", 17), ("1.8.0_412", 8), ("25", 25)])
def test_the_file_beside_java_tells_its_version_without_a_jvm(tmp_path, line, version):
    tmp_path.joinpath("bin").mkdir()
    tmp_path.joinpath("bin", "java").touch()  # not to be run
    assert java_version(str(tmp_path / "bin" / "java")) is None
    tmp_path.joinpath("release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{line}"\n')
    assert java_version(str(tmp_path / "bin" / "java")) == version


def test_an_old_spark_under_a_new_pyspark_is_named():
    running = Session()
    running.version = "4.0.1"
    with pytest.raises(ConfigError, match=r"needs PySpark 4\.2 or newer, but this is 4\.0\.1"):
        register(running)
