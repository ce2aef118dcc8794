"""Each name server by itself: whether it answers, and whether it knows the same as the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from orderly.cli.doctor.asking import Answer, ask
from orderly.cli.doctor.finding import Finding, State
from orderly.cli.doctor.releases import release_of
from orderly.client import Client
from orderly.client.admin import listed
from orderly.errors import OrderlyError, RemotingError
from orderly.model import BrokerData
from orderly.protocol.bodies import decode_cluster_info
from orderly.protocol.codes import RequestCode

AREA = "name servers"
Brokers = Mapping[str, BrokerData]


def look_at_name_servers(client: Client) -> tuple[list[Finding], Brokers | None]:
    """Ask each; returns the findings, and all brokers that one of them knows; None: none answered.

    They do not know of each other: a broker that registers with one only is found by some clients,
    and not by others.
    """
    told = {address: _asked(client, address) for address in client.config.addresses}
    known = [brokers for _, brokers in told.values() if brokers is not None]
    together = _together(known) if known else None
    return [_finding(address, *said, together) for address, said in told.items()], together


def _asked(client: Client, address: str) -> tuple[Answer, Brokers | None]:
    answer = ask(client, address, RequestCode.GET_BROKER_CLUSTER_INFO, "the clusters")
    if answer.error is not None:
        return answer, None
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
    address: str, answer: Answer, brokers: Brokers | None, together: Brokers | None
) -> Finding:
    if brokers is None or together is None:
        return _silent(address, answer, others=together is not None)
    release = release_of(answer.version or 0)
    lacking = {name for name in together if _addresses(together, name) - _addresses(brokers, name)}
    if lacking:
        advice = "have every broker register with every name server: namesrvAddr of the broker"
        found = f"{release}, does not know all of {listed(lacking)}"
        return Finding(AREA, address, State.WARNING, found, advice)
    return Finding(AREA, address, State.OK, f"{release}, knows {listed(brokers)}")


def _silent(address: str, answer: Answer, *, others: bool) -> Finding:
    if not isinstance(answer.error, RemotingError):  # it answers, and is something else
        state, advice = State.CRITICAL, "name a name server, not a broker or a proxy"
    elif others:
        state, advice = State.WARNING, "start it, or leave it out: clients go on with the others"
    else:
        state, advice = State.UNKNOWN, "start it, or correct namesrv: `orderly context show`"
    return Finding(AREA, address, state, str(answer.error), advice)


def _addresses(brokers: Brokers, name: str) -> set[tuple[int, str]]:
    found = brokers.get(name)
    return set() if found is None else set(found.addresses.items())
