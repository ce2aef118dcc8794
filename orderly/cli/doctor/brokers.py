"""Each broker, its slaves by themselves: whether it answers, its release, role and clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from orderly.cli.doctor.asking import Answer, ask
from orderly.cli.doctor.clocks import difference
from orderly.cli.doctor.finding import Finding, State
from orderly.cli.doctor.name_servers import Brokers
from orderly.cli.doctor.releases import OLDEST_TRIED, release_of
from orderly.client import Client
from orderly.client.replies import not_granted
from orderly.errors import NoPermission, OrderlyError
from orderly.model import Permission
from orderly.monitoring.texts import duration
from orderly.protocol.broker_settings import decode_settings, retention_of
from orderly.protocol.codes import RequestCode
from orderly.protocol.json_values import load_object, object_in

AREA = "brokers"
_AT_ONCE = 16  # that are asked; one that hangs holds up no other
_BOTH = Permission.READ | Permission.WRITE


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
class Seen:
    """What a replica said.

    Attributes:
        running: of itself (brokers tell administrators only, where there is access control).
        settings: its configuration.
    """

    replica: Replica
    running: Answer
    settings: Answer


def look_at_brokers(client: Client, brokers: Brokers) -> tuple[list[Finding], list[Seen]]:
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
        found.append(Finding(AREA, "brokers", State.CRITICAL, "none is registered", advice))
    return found + [finding for it in seen for finding in _findings(it)], seen


def _look(client: Client, replica: Replica) -> Seen:
    who = f"of broker {replica.name!r}"
    asked = partial(ask, client, replica.address)
    running = asked(RequestCode.GET_BROKER_RUNTIME_INFO, f"the running info {who}")
    if running.version is None:  # it would not answer this, either
        return Seen(replica, running, running)
    return Seen(replica, running, asked(RequestCode.GET_BROKER_CONFIG, f"the settings {who}"))


def _no_master(name: str) -> Finding:
    advice = "start its master: until then its queues can be neither locked nor written"
    return Finding(AREA, name, State.CRITICAL, "no master at the name servers", advice)


def _findings(seen: Seen) -> Iterator[Finding]:
    name, running, settings = seen.replica.name, seen.running, seen.settings
    if running.version is None:
        state = State.WARNING if seen.replica.broker_id else State.CRITICAL
        advice = "start it, or let this machine through to it: see the address that it announces"
        yield Finding(AREA, name, state, str(running.error), advice)
        return
    yield _version(seen.replica, running.version)
    if _refused(settings):
        yield _not_told(name, "settings")
    else:
        yield from _settings(seen.replica, settings)
    if _refused(running):
        yield _not_told(name, "clock")
    else:
        yield _clock(name, running)


def _version(replica: Replica, number: int) -> Finding:
    found = f"{release_of(number)} at {replica.address}"
    if number < OLDEST_TRIED:
        advice = "tried are 5.x releases: try yours before you rely on it, or upgrade it"
        return Finding(AREA, replica.name, State.WARNING, found, advice)
    return Finding(AREA, replica.name, State.OK, found)


def _refused(answer: Answer) -> bool:
    """Whether it is a matter of the key, which `access` tells."""
    return isinstance(answer.error, NoPermission)


def _not_told(name: str, what: str) -> Finding:
    advice = "look with an administrator's key, if you need to know"
    return Finding(AREA, f"{name} {what}", State.ABSENT, "not told to this key", advice)


def _settings(replica: Replica, answer: Answer) -> Iterator[Finding]:
    part = f"{replica.name} settings"
    if answer.error is not None:
        yield _unknown(part, answer.error)
        return
    told = decode_settings(answer.body)
    yield Finding(AREA, part, State.OK, _summary(told))
    permission = told.get("brokerPermission", "")
    if permission.isdecimal() and _BOTH not in Permission(int(permission) & _BOTH):
        advice = "set brokerPermission=6 when it is to serve again (mqadmin updateBrokerConfig)"
        found = f"brokerPermission={permission}: it does not serve all, as when it is drained"
        yield Finding(AREA, part, State.WARNING, found, advice)


def _summary(told: Mapping[str, str]) -> str:
    kept = retention_of(told)
    parts = [told.get("brokerRole", "role not told")]
    parts += [] if kept is None else [f"keeps messages for {duration(kept)}"]
    made = told.get("autoCreateSubscriptionGroup")
    parts += [] if made is None else [f"makes groups: {'yes' if made == 'true' else 'no'}"]
    return ", ".join(parts)


def _clock(name: str, answer: Answer) -> Finding:
    part = f"{name} clock"
    if answer.error is not None:
        return _unknown(part, answer.error)
    try:
        found = difference(object_in(load_object(answer.body), "table"), answer)
    except OrderlyError as error:
        return _unknown(part, error)
    if found is None:
        return Finding(AREA, part, State.UNKNOWN, "it does not tell its time", "see its own host")
    if found.matters:
        advice = "set both by NTP: ages, retention and starts at a time go by these clocks"
        return Finding(AREA, part, State.WARNING, str(found), advice)
    return Finding(AREA, part, State.OK, str(found))


def _unknown(part: str, error: OrderlyError) -> Finding:
    return Finding(AREA, part, State.UNKNOWN, "it could not be asked", str(error))


def administers(seen: Seen) -> bool:
    """Whether the broker told what it tells administrators only."""
    return not not_granted(seen.running.error) and not not_granted(seen.settings.error)
