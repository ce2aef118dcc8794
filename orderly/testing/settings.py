"""The files and flags a local name server, broker and proxy are started with.

Chosen so that both fit into 1 GiB of memory and start in seconds; nothing here touches the disk.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath

NAME_SERVER = "org.apache.rocketmq.namesrv.NamesrvStartup"
BROKER = "org.apache.rocketmq.broker.BrokerStartup"
PROXY = "org.apache.rocketmq.proxy.ProxyStartup"
ROLES = {NAME_SERVER: "namesrv", BROKER: "broker", PROXY: "proxy"}  # what their files are called

_OPENED = ("java.base/java.lang", "java.base/java.nio", "java.base/sun.nio.ch")
_EXPORTED = ("java.base/jdk.internal.ref", "java.base/sun.nio.ch")
_FOR_TESTS = (
    "-XX:TieredStopAtLevel=1",  # a faster start; a test broker never needs the second compiler
    "-Dtls.server.mode=disabled",  # a certificate that nobody asks for costs seconds and 55 MiB
    # A nearly full disk is no reason to refuse a test's messages: NaN makes every comparison false
    # (DefaultMessageStore; diskMaxUsedSpaceRatio alone is clamped and not the only limit).
    "-Drocketmq.broker.diskSpaceWarningLevelRatio=NaN",
    "-Drocketmq.broker.diskSpaceCleanForciblyRatio=NaN",
)
_JAVA_17 = (
    "-XX:+UseSerialGC",
    "--enable-native-access=ALL-UNNAMED",
    *(f"--add-opens={name}=ALL-UNNAMED" for name in _OPENED),
    *(f"--add-exports={name}=ALL-UNNAMED" for name in _EXPORTED),
)
_HEAP = {
    NAME_SERVER: ("-Xms32m", "-Xmx96m", "-XX:MaxDirectMemorySize=64m"),
    BROKER: ("-Xms96m", "-Xmx320m", "-XX:MaxDirectMemorySize=256m"),
    PROXY: ("-Xms64m", "-Xmx256m", "-XX:MaxDirectMemorySize=128m"),
}
# The public image's scripts choose generations and regions for a heap of gigabytes.
_SMALL = {
    NAME_SERVER: ("-Xmn16m", "-XX:G1HeapRegionSize=1m"),
    BROKER: ("-Xmn64m", "-XX:G1HeapRegionSize=1m"),
}

LOGBACK = """\
<configuration>
  <statusListener class="org.apache.rocketmq.logging.ch.qos.logback.core.status.NopStatusListener"/>
  <appender name="FILE" class="org.apache.rocketmq.logging.ch.qos.logback.core.FileAppender">
    <file>${orderly.log}</file>
    <encoder><pattern>%d{"yyyy-MM-dd'T'HH:mm:ss.SSSXXX"} %level %logger - %msg%n</pattern></encoder>
  </appender>
  <logger name="RocketmqStats" level="WARN"/>
  <logger name="RocketmqWaterMark" level="WARN"/>
  <logger name="RocketmqPop" level="ERROR"/>
  <root level="INFO"><appender-ref ref="FILE"/></root>
</configuration>
"""


def logging_files(role: str) -> dict[str, str]:
    """Return the logging files, by name, of a value of ROLES: of 5.x, and of 4.9."""
    plain = LOGBACK.replace("org.apache.rocketmq.logging.ch.", "ch.")  # 4.9: not renamed in its jar
    of_proxy = {"rmq.proxy.logback.xml": LOGBACK} if role == ROLES[PROXY] else {}
    return {"rmq.logback.xml": LOGBACK, f"logback_{role}.xml": plain} | of_proxy


def java_flags(main: str) -> tuple[str, ...]:
    """Return the JVM options of NAME_SERVER, BROKER or PROXY, for Java 17 or newer."""
    return (*_HEAP[main], *_FOR_TESTS, *_JAVA_17)


def java_flags_for_image(main: str) -> tuple[str, ...]:
    """Return what is added to an image's own JVM options: valid from Java 8 on, any collector."""
    return (*_HEAP[main], *_SMALL[main], *_FOR_TESTS)


def java_command(
    java: Path, main: str, jars: Sequence[Path], directory: Path, options: Sequence[str]
) -> list[str]:
    """Return the command line of one of the servers.

    Args:
        java: the runtime.
        main: NAME_SERVER, BROKER or PROXY.
        jars: the class path.
        directory: the instance's own; logs and settings are in it, and so is "home".
        options: further JVM options; they come last, so they win.
    """
    role = ROLES[main]
    class_path = ":".join(map(str, (directory / "conf", *jars)))
    return [
        str(java),
        *java_flags(main),
        f"-Duser.home={directory}",  # RocketMQ writes below the home directory
        f"-Djava.io.tmpdir={directory / 'tmp'}",  # a killed JVM leaves its native library there
        f"-Dorderly.log={directory / f'{role}.log'}",
        *options,
        "-cp",
        class_path,
        main,
        "-pc" if main == PROXY else "-c",
        str(directory / "conf" / f"{role}.conf"),
    ]


def name_server_properties(directory: Path, port: int) -> dict[str, str]:
    """Return the name server's settings."""
    return {
        "listenPort": str(port),
        "bindAddress": "127.0.0.1",
        "kvConfigPath": str(directory / "kvConfig.json"),
        "configStorePath": str(directory / "namesrv.properties"),
    }


def broker_properties(
    directory: PurePath, broker_name: str, port: int, namesrv: str, extra: Mapping[str, str]
) -> dict[str, str]:
    """Return the broker's settings; `extra` wins."""
    store = directory / "store"
    return {
        "brokerClusterName": "DefaultCluster",
        "brokerName": broker_name,
        "brokerId": "0",
        "namesrvAddr": namesrv,
        "bindAddress": "127.0.0.1",
        "brokerIP1": "127.0.0.1",
        "brokerIP2": "127.0.0.1",
        "listenPort": str(port),
        "haListenPort": str(port + 1),
        "storePathRootDir": str(store),
        "storePathCommitLog": str(store / "commitlog"),
        "mappedFileSizeCommitLog": str(32 * 1024 * 1024),
        "mappedFileSizeConsumeQueue": str(20 * 30_000),
        # Without it a deletion of a topic fails once all is done (AdminBrokerProcessor: the timers'
        # counters). It costs 120 MB and a second.
        "timerWheelEnable": "true",
        # ms. At the default, 1000, an idle broker copies the wheel all the time: 11 % of a core.
        "timerFlushIntervalMs": "60000",
        # ms. Until it is over for the first time, a broker looks at the clock without a pause
        # (TransactionMetricsFlushService): at the default, 10 s, that takes a core for as long.
        "transactionMetricFlushInterval": "250",
        "autoCreateTopicEnable": "false",  # a topic made by accident has arbitrary queues
        # ms; on a busy machine sends wait longer than 200, and that is no reason to refuse them.
        "waitTimeMillsInSendQueue": "2000",
        # If a name server takes 3 s to answer, a broker closes the connection, and that ends its
        # registration: for up to 30 s its topics are unknown (NettyRemotingClient.invokeSync).
        "clientCloseSocketIfTimeout": "false",
    } | dict(extra)


def proxy_properties(port: int, namesrv: str, extra: Mapping[str, object]) -> dict[str, object]:
    """Return the proxy's settings; `extra` wins."""
    return {
        "rocketMQClusterName": "DefaultCluster",
        "namesrvAddr": namesrv,
        "remotingListenPort": port,
        "remotingAccessAddr": "127.0.0.1",  # every broker's, in routes
        "localServeAddr": "127.0.0.1",
        # A name for other proxies, together with the ports. It does not listen (see `proxy`).
        "grpcServerPort": port,
        "enableRemotingLocalProxyGrpc": False,
    } | dict(extra)


def as_text(properties: Mapping[str, object], *, main: str = BROKER) -> str:
    """Write settings as `main` reads them: a proxy JSON, the others a Java properties file."""
    if main == PROXY:
        return json.dumps(dict(properties))
    return "".join(f"{name}={_escaped(str(value))}\n" for name, value in properties.items())


def _escaped(value: str) -> str:
    """Double the backslashes and write UTF-16 escapes: Java reads the file as Latin-1."""
    units = value.replace("\\", "\\\\").encode("utf-16-be")
    codes = (int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2))
    return "".join(chr(code) if code < 128 else f"\\u{code:04x}" for code in codes)
