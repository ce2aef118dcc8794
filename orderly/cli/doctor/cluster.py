"""The whole look at a cluster, in the order in which its parts hang on each other."""

from __future__ import annotations

from collections.abc import Iterator

from orderly.cli.doctor.access import look_at_key, look_at_rights
from orderly.cli.doctor.brokers import look_at_brokers
from orderly.cli.doctor.finding import Finding, State
from orderly.cli.doctor.name_servers import look_at_name_servers
from orderly.cli.doctor.wanted import Wanted
from orderly.cli.settings import Settings
from orderly.config import ClientConfig
from orderly.errors import ConfigError

AREA = "settings"


def look_at_cluster(settings: Settings, wanted: Wanted, patience: float) -> Iterator[Finding]:
    """Yield what is found; without a name server, only that.

    Args:
        settings: of the command line.
        wanted: a consumer to be looked at; without group and topics none is.
        patience: seconds for each connection, and each answer.
    """
    try:
        config = settings.client_config()
        client = settings.client(patience)
    except ConfigError as error:
        yield _not_usable(settings, wanted, str(error))
        return
    yield from _settings(settings, config)
    with client as asking:
        found, brokers = look_at_name_servers(asking)
        yield from found
        if brokers is None:
            return
        found, seen = look_at_brokers(asking, brokers)
        yield from found
        yield look_at_key(asking, seen)
        if wanted.group is not None or wanted.topics:
            from orderly.cli.doctor.start import Start  # noqa: PLC0415  only here

            start = Start(asking, wanted)
            start.look()
            yield from start.findings
            yield from look_at_rights(asking, wanted.group, start.queues())


def _not_usable(settings: Settings, wanted: Wanted, text: str) -> Finding:
    if "namesrv" in settings.found():
        return Finding(AREA, "settings", State.CRITICAL, "they cannot be used", text)
    needed = wanted.group is not None or wanted.topics
    state = State.UNKNOWN if needed else State.ABSENT
    return Finding(AREA, "name servers", state, "none is named: no cluster was looked at", text)


def _settings(settings: Settings, config: ClientConfig) -> Iterator[Finding]:
    found = settings.found()
    origin = found.get("namesrv", ("", "the local broker"))[1]
    yield Finding(AREA, "name servers", State.OK, f"{config.namesrv} ({origin})")
    if name := settings.context_name():
        yield Finding(AREA, "context", State.OK, f"{name}, of {settings.file().path}")
    if namespace := settings.namespace_name():
        yield Finding(AREA, "namespace", State.OK, f"{namespace} ({found['namespace'][1]})")
    if config.tls:
        yield _tls(config.tls_verify)


def _tls(verify: str) -> Finding:
    if verify == "none":
        advice = "set tls_verify=host, or chain: as it is, anybody on the way may read and change"
        return Finding(AREA, "tls", State.WARNING, "on, tls_verify=none", advice)
    return Finding(AREA, "tls", State.OK, f"on, tls_verify={verify}")
