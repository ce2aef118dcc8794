"""The cluster as the doctor looks at it: settings, name servers, brokers, clocks, the key."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from orderly.cli.doctor.findings import DoctorFinding, FindingState, WantedStart
from orderly.cli.doctor.start import look_at_start
from orderly.cli.settings import CommonOptions
from orderly.client import Client
from orderly.client.admin import listed
from orderly.client.calls import failure, not_granted
from orderly.config import ClientConfig
from orderly.errors import NoPermission, OrderlyError, RemotingError
from orderly.model import BrokerData, Permission
from orderly.monitoring.texts import duration
from orderly.protocol.body import OBJECT, load_object
from orderly.protocol.codes import (
    OF_5_0_0,
    OF_5_3_0,
    OLDEST_TRIED,
    RequestCode,
    release_of,
)
from orderly.protocol.frame import RemotingCommand, request
from orderly.protocol.route import decode_cluster_info
from orderly.protocol.statistics import (
    OWN_RESETS,
    decode_settings,
    resets_by_itself,
    retention_of,
)

_AT_ONCE = 16  # brokers that are asked; one that hangs holds up no other
_BOTH = Permission.READ | Permission.WRITE
_broker = partial(DoctorFinding, "brokers")
_key = partial(DoctorFinding, "access", "access key")


def look_at_cluster(
    settings: CommonOptions, config: ClientConfig, client: Client, wanted: WantedStart
) -> Iterator[DoctorFinding]:
    """Yield what is found; without a name server, or a proxy, that answers, only that."""
    yield from _settings(settings, config)
    found, brokers = look_at_name_servers(client)
    yield from found
    if brokers is not None:
        found, seen = look_at_brokers(client, brokers)
        yield from found
        yield look_at_key(client, seen)
    elif not client.behind_proxy:
        return
    if wanted.group is not None or wanted.topics:
        yield from look_at_start(client, wanted)


def _settings(settings: CommonOptions, config: ClientConfig) -> Iterator[DoctorFinding]:
    found = settings.found()
    origin = found.get("namesrv", ("", "the local broker"))[1]
    yield DoctorFinding("settings", "name servers", FindingState.OK, f"{config.namesrv} ({origin})")
    if name := settings.context_name():
        yield DoctorFinding(
            "settings", "context", FindingState.OK, f"{name}, of {settings.file().path}"
        )
    if namespace := settings.namespace_name():
        yield DoctorFinding(
            "settings", "namespace", FindingState.OK, f"{namespace} ({found['namespace'][1]})"
        )
    if config.tls:
        yield _tls(config.tls_verify)


def _tls(verify: str) -> DoctorFinding:
    if verify == "none":
        advice = "set tls_verify=host or chain: without it, anybody on the way can read and change"
        return DoctorFinding("settings", "tls", FindingState.WARNING, "on, tls_verify=none", advice)
    return DoctorFinding("settings", "tls", FindingState.OK, f"on, tls_verify={verify}")


# --- asking ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """What became of a question.

    Attributes:
        version: number of the server's release; None: it did not answer.
        body: of an answer that says yes.
        error: why it is missing.
        sent, came: seconds since the epoch, by our clock.
        is_proxy: a proxy refused it.
    """

    version: int | None
    body: bytes
    error: OrderlyError | None
    sent: float
    came: float
    is_proxy: bool = False


def ask(client: Client, address: str, code: RequestCode, what: str) -> ServerAnswer:
    """Ask a request without a header; connects before, so that the times are the answer's alone.

    Args:
        client: to ask with; its time-outs hold.
        address: "host:port".
        code: of the request.
        what: is asked, for the error's text.
    """
    sent = time.time()
    reply: RemotingCommand | None = None
    error: OrderlyError | None = None
    try:
        connection = client.connections.get(address)
        sent = time.time()
        reply = connection.call(request(code), client.config.request_timeout)
        if reply.code != 0:
            error = failure(reply, address, what)
    except OrderlyError as silence:
        error = silence
    version = None if reply is None else reply.version
    body = b"" if reply is None or error is not None else reply.body
    return ServerAnswer(version, body, error, sent, time.time())


# --- name servers ----------------------------------------------------------------------------

Brokers = Mapping[str, BrokerData]


def look_at_name_servers(client: Client) -> tuple[list[DoctorFinding], Brokers | None]:
    """Ask each; returns the findings, and all brokers that one of them knows; None: none answered.

    They do not know of each other: a broker that registers with one only is found by some clients,
    and not by others.
    """
    answers = {address: _asked(client, address) for address in client.config.addresses}
    known = [brokers for _, brokers in answers.values() if brokers is not None]
    together = _together(known) if known else None
    found = [
        _proxy(address, said[0]) if said[0].is_proxy else _finding(address, *said, together)
        for address, said in answers.items()
    ]
    return found, together


def _asked(client: Client, address: str) -> tuple[ServerAnswer, Brokers | None]:
    answer = ask(client, address, RequestCode.GET_BROKER_CLUSTER_INFO, "the clusters")
    if answer.error is not None:
        answers = not isinstance(answer.error, RemotingError)
        is_proxy = answers and client.name_servers.is_proxy(address)
        return replace(answer, is_proxy=is_proxy), None
    try:
        return answer, decode_cluster_info(answer.body).brokers
    except OrderlyError as error:
        return replace(answer, error=error), None


def _together(known: Iterable[Brokers]) -> Brokers:
    """All brokers, with all addresses that somebody has of them."""
    found: dict[str, BrokerData] = {}
    for brokers in known:
        for name, broker in brokers.items():
            before = found.get(name)
            addresses = {**(before.addresses if before else {}), **broker.addresses}
            found[name] = replace(broker, addresses=addresses)
    return found


def _finding(
    address: str, answer: ServerAnswer, brokers: Brokers | None, together: Brokers | None
) -> DoctorFinding:
    if brokers is None or together is None:
        return _silent(address, answer, others=together is not None)
    release = release_of(answer.version or 0)
    lacking = {name for name in together if _addresses(together, name) - _addresses(brokers, name)}
    if lacking:
        advice = "register every broker with every name server (namesrvAddr of the broker)"
        found = f"{release}, does not know all of {listed(lacking)}"
        return DoctorFinding("name servers", address, FindingState.WARNING, found, advice)
    return DoctorFinding(
        "name servers", address, FindingState.OK, f"{release}, knows {listed(brokers)}"
    )


def _proxy(address: str, answer: ServerAnswer) -> DoctorFinding:
    found = f"a proxy, {release_of(answer.version or 0)}, in place of a name server"
    advice = (
        "consumers and producers work through it, within the limits in docs/how-to/proxy.md; name"
        " the name servers for this command, backlog, topic and all other commands that ask brokers"
    )
    return DoctorFinding("name servers", address, FindingState.OK, found, advice)


def _silent(address: str, answer: ServerAnswer, *, others: bool) -> DoctorFinding:
    if not isinstance(answer.error, RemotingError):  # it answers, and is something else
        state = FindingState.CRITICAL
        advice = "give the address of a name server or a proxy, not of a broker"
    elif others:
        state, advice = (
            FindingState.WARNING,
            "start it, or leave it out: clients go on with the others",
        )
    else:
        state, advice = FindingState.UNKNOWN, "start it, or correct namesrv: `orderly context show`"
    return DoctorFinding("name servers", address, state, str(answer.error), advice)


def _addresses(brokers: Brokers, name: str) -> set[tuple[int, str]]:
    found = brokers.get(name)
    return set() if found is None else set(found.addresses.items())


# --- brokers ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Replica:
    """One server of a broker; id 0 is its master."""

    broker: str
    broker_id: int
    address: str

    @property
    def name(self) -> str:
        """As findings call it."""
        return f"{self.broker} slave {self.broker_id}" if self.broker_id else self.broker


@dataclass(frozen=True, slots=True)
class SeenReplica:
    """What a replica said.

    Attributes:
        running: of itself (brokers show it to administrators only, where there is access control).
        settings: its configuration.
    """

    replica: Replica
    running: ServerAnswer
    settings: ServerAnswer


def look_at_brokers(
    client: Client, brokers: Brokers
) -> tuple[list[DoctorFinding], list[SeenReplica]]:
    """Ask each replica; returns the findings, and what was said, for `access` to go by."""
    replicas = [
        Replica(name, number, address)
        for name, broker in sorted(brokers.items())
        for number, address in sorted(broker.addresses.items())
    ]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        seen = list(pool.map(partial(_look, client), replicas))
    found = [_no_master(name) for name, broker in sorted(brokers.items()) if not broker.master]
    if not brokers:
        advice = "start a broker with these name servers as its namesrvAddr"
        found.append(_broker("brokers", FindingState.CRITICAL, "none is registered", advice))
    signed = bool(client.config.access_key)
    return found + [finding for it in seen for finding in _findings(it, signed=signed)], seen


def _look(client: Client, replica: Replica) -> SeenReplica:
    who = f"of broker {replica.name!r}"
    asked = partial(ask, client, replica.address)
    running = asked(RequestCode.GET_BROKER_RUNTIME_INFO, f"the running info {who}")
    if running.version is None:  # it would not answer this, either
        return SeenReplica(replica, running, running)
    return SeenReplica(
        replica, running, asked(RequestCode.GET_BROKER_CONFIG, f"the settings {who}")
    )


def _no_master(name: str) -> DoctorFinding:
    advice = "start its master: until then its queues can be neither locked nor written"
    return _broker(name, FindingState.CRITICAL, "no master at the name servers", advice)


def _findings(seen: SeenReplica, *, signed: bool) -> Iterator[DoctorFinding]:
    name, running, settings = seen.replica.name, seen.running, seen.settings
    if running.version is None:
        state = FindingState.WARNING if seen.replica.broker_id else FindingState.CRITICAL
        advice = "start it, or let this machine through to it: see the address that it announces"
        yield _broker(name, state, str(running.error), advice)
        return
    yield release_finding(seen.replica, running.version, signed=signed)
    yield from _broker_settings(seen.replica, settings)
    yield _clock(name, running)


@dataclass(frozen=True, slots=True)
class Lack:
    """A feature that this library uses, and that older releases do not have.

    Attributes:
        before: the number of the first release that has it.
        what: its name.
        advice: what you do without it.
        signed: it matters only with an access key.
    """

    before: int
    what: str
    advice: str
    signed: bool = False


LACKS = (
    Lack(
        OF_5_0_0,
        "settings of one topic or group",
        "each start asks for those of all, which takes longer if there are thousands",
    ),
    Lack(OF_5_0_0, "types of topics", "`orderly topic create --type` has no effect"),
    Lack(
        OF_5_0_0,
        "a sign that a group has committed no offset in a queue",
        "while the queue's first messages are in its memory it says 0, so a new group begins at 0,"
        " whatever consume_from says",
    ),
    Lack(
        OF_5_0_0,
        "removal of offsets with a deleted topic",
        "if you delete a topic and create it again, stop the members first, and then use `orderly"
        " offsets reset --to-earliest`",
    ),
    Lack(
        OF_5_3_0,
        "access control 2.0",
        "give rights in its plain_acl.yml, not with mqadmin updateAcl",
        signed=True,
    ),
)


def release_finding(replica: Replica, number: int, *, signed: bool) -> DoctorFinding:
    """Name a broker's release, and what it lacks.

    Args:
        replica: which.
        number: of its release, as it says with each answer.
        signed: whether an access key is set.
    """
    found = f"{release_of(number)} at {replica.address}"
    lacks = [it for it in LACKS if number < it.before and (signed or not it.signed)]
    if lacks:
        found += f", lacks {listed(it.what for it in lacks)}"
    if number < OLDEST_TRIED:
        advice = "only 4.9.7 and later are tested: test yours before you rely on it, or upgrade"
        return _broker(replica.name, FindingState.WARNING, found, advice)
    return _broker(replica.name, FindingState.OK, found, "; ".join(it.advice for it in lacks))


def _broker_settings(replica: Replica, answer: ServerAnswer) -> Iterator[DoctorFinding]:
    part = f"{replica.name} settings"
    if answer.error is not None:
        yield _unknown(part, answer.error)
        return
    settings = decode_settings(answer.body)
    yield _broker(part, FindingState.OK, _summary(settings))
    permission = settings.get("brokerPermission", "")
    if permission.isdecimal() and _BOTH not in Permission(int(permission) & _BOTH):
        advice = "set brokerPermission=6 when it should serve again (mqadmin updateBrokerConfig)"
        found = f"brokerPermission={permission}: it serves only a part, as when it is being drained"
        yield _broker(part, FindingState.WARNING, found, advice)
    if not resets_by_itself(settings):
        advice = (
            f"stop a group's members before its resets, or set {OWN_RESETS}=true (5.1 or later)"
        )
        found = "running members learn of no `orderly offsets reset`"
        yield _broker(part, FindingState.OK, found, advice)


def _summary(settings: Mapping[str, str]) -> str:
    kept = retention_of(settings)
    parts = [settings.get("brokerRole", "role not known")]
    parts += [] if kept is None else [f"keeps messages for {duration(kept)}"]
    made = settings.get("autoCreateSubscriptionGroup")
    parts += [] if made is None else [f"creates groups: {'yes' if made == 'true' else 'no'}"]
    return ", ".join(parts)


def _clock(name: str, answer: ServerAnswer) -> DoctorFinding:
    part = f"{name} clock"
    if answer.error is not None:
        return _unknown(part, answer.error)
    try:
        found = difference(OBJECT.at(load_object(answer.body), "table"), answer)
    except OrderlyError as error:
        return _unknown(part, error)
    if found is None:
        return _broker(
            part, FindingState.UNKNOWN, "it does not report its time", "see its own host"
        )
    if found.matters:
        advice = "set both by NTP: ages, retention and starts at a time use these clocks"
        return _broker(part, FindingState.WARNING, str(found), advice)
    return _broker(part, FindingState.OK, str(found))


def _unknown(part: str, error: OrderlyError) -> DoctorFinding:
    if isinstance(error, NoPermission):  # a matter of the key, which `access` reports
        advice = "use an administrator's key if you need to know"
        return _broker(part, FindingState.ABSENT, "not shown to this key", advice)
    return _broker(part, FindingState.UNKNOWN, "it could not be asked", str(error))


def administers(seen: SeenReplica) -> bool:
    """Whether the broker showed what only administrators may see."""
    return not not_granted(seen.running.error) and not not_granted(seen.settings.error)


# --- clocks ----------------------------------------------------------------------------------

_RUNTIME = re.compile(r"(\d{1,6}) days?, (\d{1,2}) hours?, (\d{1,2}) minutes?, (\d{1,2}) seconds?")
_UNITS = (86400, 3600, 60, 1)  # seconds
_RESOLUTION = 1.0  # second: the broker gives whole ones
_MILLIS = re.compile(r"\d{1,15}")
TOLERATED = 2.0  # seconds


@dataclass(frozen=True, slots=True)
class Difference:
    """A broker's clock minus ours, seconds; the truth is at most `doubt` away."""

    seconds: float
    doubt: float

    @property
    def matters(self) -> bool:
        """Whether it is too much for certain."""
        return abs(self.seconds) - self.doubt > TOLERATED

    def __str__(self) -> str:
        sign = "behind" if self.seconds < 0 else "ahead"
        if abs(self.seconds) <= self.doubt:
            return f"the same, within {self.doubt:.1f} s"
        return f"{duration(abs(self.seconds))} {sign}, within {self.doubt:.1f} s"


def difference(runtime: Mapping[str, object], answer: ServerAnswer) -> Difference | None:
    """Read it from a broker's runtime info; None if it is not there.

    Args:
        runtime: what the broker answered.
        answer: that it came with: when it was asked for, and when it came.
    """
    booted, running = str(runtime.get("bootTimestamp")), str(runtime.get("runtime"))
    found = _RUNTIME.search(running)
    if found is None or not _MILLIS.fullmatch(booted):
        return None
    ran = sum(unit * int(count) for unit, count in zip(_UNITS, found.groups(), strict=True))
    there = int(booted) / 1000 + ran + _RESOLUTION / 2
    here = (answer.sent + answer.came) / 2
    return Difference(there - here, (_RESOLUTION + answer.came - answer.sent) / 2)


# --- the key ---------------------------------------------------------------------------------


def look_at_key(client: Client, seen: Sequence[SeenReplica]) -> DoctorFinding:
    """What brokers think of the key: it lets us in, and makes us an administrator, or not."""
    named = "a key is set" if client.config.access_key else "no key is set"
    for it in seen:
        for error in (it.running.error, it.settings.error):
            if isinstance(error, NoPermission) and not not_granted(error):
                found = f"{named}, and broker {it.replica.name} refuses it"
                return _key(FindingState.CRITICAL, found, str(error))
    if not any(it.running.version is not None for it in seen):
        advice = "look again when a broker answers"
        return _key(FindingState.UNKNOWN, f"{named}; no broker answered", advice)
    if not all(map(administers, seen)):
        advice = (
            "use an administrator's key (user type Super) for `orderly backlog`, the exporter and"
            " most administration; consumers and producers need none"
        )
        return _key(FindingState.ABSENT, f"{named}; it is not an administrator's", advice)
    return _key(FindingState.OK, f"{named}; brokers answered all questions")
