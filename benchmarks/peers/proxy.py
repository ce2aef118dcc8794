"""A private gRPC proxy in cluster mode for the broker of a run, as a process that ends with us.

It listens on loopback only.
"""

import contextlib
import json
import os
import socket
import tempfile
import time
from pathlib import Path

from benchmarks.peers.java import SOURCES, require_jdk
from benchmarks.peers.launch import SideFailed
from orderly.testing.jars import fetch_jars, listed_jars
from orderly.testing.ports import free_port
from orderly.testing.settings import BROKER, LOGBACK, java_flags
from orderly.testing.site import ServerProcess

MAIN = SOURCES / "LoopbackProxy.java"
OPTIONS = ("-XX:TieredStopAtLevel=4", "-Xmx1g", "-XX:MaxDirectMemorySize=512m")
_PATIENCE = 90.0  # seconds


@contextlib.contextmanager
def running(namesrv, remoting=None):
    """Start it; gives the address of its gRPC port.

    Args:
        namesrv: "host:port" of the name server behind it.
        remoting: its remoting port; a free one if nobody needs to know it.

    Raises:
        SideFailed: it did not come up.
    """
    port, remoting = free_port(), remoting or free_port()
    with tempfile.TemporaryDirectory(prefix="orderly-proxy-") as name:
        home = Path(name)
        _configure(home, namesrv, port, remoting)
        env = {k: v for k, v in os.environ.items() if k != "JAVA_TOOL_OPTIONS"}
        log = home / "proxy.out"
        process = ServerProcess("proxy", _command(home), log, env | {"ROCKETMQ_HOME": name})
        try:
            for each in (port, remoting):
                _wait_ready(process, each)
            yield f"127.0.0.1:{port}"
        finally:
            process.kill()


def _configure(home, namesrv, port, remoting):
    conf = home / "conf"
    conf.mkdir()
    (home / "tmp").mkdir()
    (conf / "rmq.logback.xml").write_text(LOGBACK)
    settings = {
        "rocketMQClusterName": "DefaultCluster",
        "namesrvAddr": namesrv,
        "grpcServerPort": port,
        "remotingListenPort": remoting,
        "remotingAccessAddr": "127.0.0.1",  # in the routes that it tells remoting clients
    }
    (conf / "proxy.json").write_text(json.dumps(settings))


def _command(home):
    jars = fetch_jars(jars=listed_jars(proxy=True))
    class_path = os.pathsep.join(map(str, (home / "conf", *jars)))
    folders = (f"-Duser.home={home}", f"-Djava.io.tmpdir={home / 'tmp'}")
    return [
        require_jdk()[1],
        *java_flags(BROKER),
        *OPTIONS,
        *folders,
        f"-Dorderly.log={home / 'proxy.log'}",
        "-cp",
        class_path,
        str(MAIN),
        "-pc",
        str(home / "conf" / "proxy.json"),
    ]


def _wait_ready(process, port):
    deadline = time.monotonic() + _PATIENCE
    while process.alive and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.2)
    raise SideFailed(f"the proxy did not come up: {process.tail(5)}")
