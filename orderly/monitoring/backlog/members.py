"""What the members of a group tell of themselves: who has which queue, and what it does with it.

From the answers to 307 alone; nobody asks for a lock. Times in them are of the member's clock, and
only compared with each other where that clock and ours disagree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from orderly.model import MessageQueue
from orderly.monitoring.backlog.reading import GroupReading
from orderly.monitoring.texts import counted
from orderly.protocol.heartbeat import ConsumeType, MessageModel
from orderly.protocol.queue_news import QueueNews, queue_news
from orderly.protocol.running_info import QueueInfo, RunningInfo, RunningProperty

QUIET = 30.0  # seconds: a member pulls, locks or handles something more often than this
FRESH = 5.0  # seconds since the last handler call of a message that is tried again each second
LEAST_ATTEMPTS = 2


@dataclass(frozen=True, slots=True)
class Claim:
    """A member that has a queue, and what it says of it.

    Attributes:
        client: its id.
        info: of the queue.
        now: the member's clock when it was asked.
        news: what a member of ours adds.
    """

    client: str
    info: QueueInfo
    now: float
    news: QueueNews | None


@dataclass(frozen=True, slots=True)
class Trouble:
    """What a member cannot get done.

    Attributes:
        offset: of the message; once the group has committed beyond it, this is over.
        text: what is the matter.
        at_rest: only while the group's committed offset stays at it: so looks a moment between
            two messages, too.
    """

    offset: int
    text: str
    at_rest: bool = False


def claims_of(reading: GroupReading) -> dict[MessageQueue, list[Claim]]:
    """Who has each queue; queues being given up have no claim."""
    found: dict[MessageQueue, list[Claim]] = {}
    for client, running in sorted(reading.running.items()):
        now = member_clock(running, reading.running_at)
        news = queue_news(running)
        for queue, info in running.queues.items():
            if not info.dropped:
                claim = Claim(client, info, now, news.get(queue))
                found.setdefault(queue, []).append(claim)
    return found


def given_up(reading: GroupReading) -> set[MessageQueue]:
    """Queues that a member is giving up: it keeps the lock until its handlers have ended."""
    infos = reading.running.values()
    return {queue for info in infos for queue, told in info.queues.items() if told.dropped}


def member_clock(running: RunningInfo, asked_at: float) -> float:
    """What a member's clock said when it was asked.

    That is ours, unless its own times contradict: the newest of them is never later than its now,
    and never much earlier.
    """
    newest = max(
        (
            moment
            for info in running.queues.values()
            for moment in (info.last_pull_time, info.last_consume_time, info.last_lock_time)
        ),
        default=0.0,
    )
    return asked_at if not newest or newest <= asked_at <= newest + QUIET else newest


def owner_of(claims: list[Claim]) -> str:
    """The member that has the queue; of several the one that locked it last."""
    return max(claims, key=lambda claim: (claim.info.locked, claim.info.last_lock_time)).client


def clients_of(reading: GroupReading) -> tuple[str, ...] | None:
    """Client ids online, sorted; None: not known."""
    if reading.connections is not None:
        return tuple(sorted({c.client_id for c in reading.connections.connections}))
    return () if reading.read_at and not reading.errors else None


def all_told(reading: GroupReading) -> bool:
    """Whether every member said which queues it has; those that pop, or ask, have none."""
    clients = clients_of(reading)
    return (
        bool(clients)
        and not reading.errors
        and reading.connections is not None
        and reading.connections.consume_type == ConsumeType.PASSIVELY
        and reading.running.keys() >= set(clients or ())
        and not any(running.pops for running in reading.running.values())
    )


def idle_of(reading: GroupReading) -> tuple[str, ...] | None:
    """Members that said that they have no queue; None: not known of one of them."""
    if not all_told(reading):
        return None
    busy = {claim.client for claims in claims_of(reading).values() for claim in claims}
    return tuple(client for client in clients_of(reading) or () if client not in busy)


def order_of(reading: GroupReading) -> str:
    """How order is kept: "key", "queue", "none", or "" if nobody tells."""
    told = {word for running in reading.running.values() if (word := _order(running.properties))}
    if "key" in told or (reading.records and not told):
        return "key"
    return "queue" if "queue" in told else "none" if told else ""


def _order(properties: Mapping[str, str]) -> str:
    own = properties.get("order", "")
    if own in ("key", "queue"):
        return own
    words = {"true": "queue", "false": "none"}
    return words.get(properties.get(RunningProperty.ORDERLY, "").lower(), "")


def is_ordered(reading: GroupReading) -> bool | None:
    """Whether a member says that it consumes in order; None: no member has said anything."""
    said = [info.properties.get(RunningProperty.ORDERLY) for info in reading.running.values()]
    return "true" in said if said else None


def keeps_order_by_key(reading: GroupReading) -> bool | None:
    """Whether members of ours order by key; None: none of ours has said anything."""
    said = {info.properties.get("order") for info in reading.running.values()} - {None}
    return "key" in said if said else None


def is_broadcasting(reading: GroupReading) -> bool:
    """Whether its members keep their offsets themselves."""
    connections = reading.connections
    return connections is not None and connections.message_model == MessageModel.BROADCASTING


def blocked(claim: Claim, after: float) -> Trouble | None:
    """A handler call that does not return.

    Ours say so; of Java's, the first message is in a listener's hands (ProcessQueue's
    consumingMsgOrderlyTreeMap), and it has been called long ago.
    """
    info, news = claim.info, claim.news
    if news is not None:
        runs = news.seconds or 0.0
        if news.why == "HUNG" or (news.why == "HANDLING" and runs > after):
            return Trouble(_offset(claim), f"{claim.client}: a handler has run for {runs:.0f} s")
        return None
    runs = claim.now - info.last_consume_time
    in_hand = info.in_hand_count > 0 and info.in_hand_min == info.commit_offset
    if in_hand and info.last_consume_time and runs > after:
        return Trouble(_offset(claim), f"{claim.client}: a handler has run for {runs:.0f} s")
    return None


def suspended(claim: Claim) -> Trouble | None:
    """A first message that is tried again and again.

    Ours count the tries; of Java's, nothing is in a listener's hands, the first message is cached,
    and the listener was called just now. (Its rate of failures stays 0 for a minute.)
    """
    info, news = claim.info, claim.news
    if news is not None:
        if news.attempts < LEAST_ATTEMPTS or news.failing_for is None:
            return None
        since = f"{news.attempts} tries in {news.failing_for:.0f} s"
        what = f"{claim.client}: {since}" + (f", {news.reason}" if news.reason else "")
        return Trouble(_offset(claim), what)
    waiting = info.cached_count > 0 and info.cached_min == info.commit_offset
    fresh = claim.now - info.last_consume_time <= FRESH
    if waiting and not info.in_hand_count and fresh:
        what = f"{claim.client}: the first message fails again and again"
        return Trouble(_offset(claim), what, at_rest=True)
    return None


def _offset(claim: Claim) -> int:
    told = None if claim.news is None else claim.news.offset
    return claim.info.commit_offset if told is None else told


def subscribed(reading: GroupReading) -> set[str] | None:
    """Topics that any member wants, as brokers and members tell; None: not known.

    Consumers that pull by themselves need not announce theirs (Java: DefaultMQPullConsumer, and
    DefaultLitePullConsumer.assign).
    """
    connections = reading.connections
    if connections is None or reading.errors or connections.consume_type == ConsumeType.ACTIVELY:
        return None
    told = {sub.topic for running in reading.running.values() for sub in running.subscriptions}
    return told | set(connections.subscriptions)


def findings_of(reading: GroupReading, lonely: int = 0) -> Iterator[str]:
    """What is wrong with the group as a whole, in sentences.

    Args:
        reading: of the group.
        lonely: how many queues nobody has.
    """
    wanted = {
        frozenset((sub.topic, sub.expression) for sub in running.subscriptions)
        for running in reading.running.values()
    }
    if len(wanted) > 1:
        yield (
            "its members subscribe to different topics or filters: each heartbeat overwrites the"
            " others' and messages go astray; deploy one version everywhere"
        )
    orders = {_order(running.properties) for running in reading.running.values()} - {""}
    if len(orders) > 1:
        yield f"its members keep order in different ways: {', '.join(sorted(orders))}"
    for queue, claims in sorted(claims_of(reading).items()):
        if len(claims) > 1 and sum(claim.info.locked for claim in claims) != 1:
            yield f"{queue} is claimed by {', '.join(claim.client for claim in claims)}"
    if idle := idle_of(reading):
        some = ", ".join(idle[:3]) + (", …" if len(idle) > 3 else "")
        why = (
            "more than it can use" if not lonely else f"{counted(lonely, 'queue')} without a member"
        )
        yield f"{counted(len(idle), 'member')} without a queue ({some}): {why}"
