"""More queues for a topic whose keys keep their order: only after it is drained.

A key's queue is its hash modulo the number of queues, so more queues move keys; a message in its
new queue may be handled before earlier ones in the old queue. Nothing must be left in those.

The plan (the settings of each step) and the steps (their order, and the way back) are pure: the
steps are a generator that yields what is to be done and is sent the answer, or thrown the error.
Until the first broker is opened with more queues all can be put back as it was; from then on only
the way forward is left, for a key may be in its new queue. `look` asks the brokers how far the
groups are: what is not known counts as not finished. `TopicGrowth` carries the steps out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from orderly.client import Client
from orderly.errors import ConfigError, OrderlyError
from orderly.foreign_text import shell_word
from orderly.model import MessageQueue, Permission
from orderly.monitoring.backlog.snapshot import GroupStatus, QueueStatus
from orderly.monitoring.collecting.members import is_proxied
from orderly.monitoring.collecting.selection import Selection, is_system_group
from orderly.monitoring.collecting.survey import survey
from orderly.monitoring.parked import ParkedMessages
from orderly.monitoring.texts import counted
from orderly.ordering.topic_names import park_topic, state_topic
from orderly.protocol.heartbeat import MessageModel
from orderly.protocol.topics import TopicConfig
from orderly.selectors.layout import Layout, layout_of


@dataclass(frozen=True, slots=True)
class Behind:
    """A group that keeps the topic from being drained.

    Attributes:
        group: its name at the brokers.
        messages: that it has not finished; None: not known.
        why: what else there is to say; "" if nothing.
    """

    group: str
    messages: int | None
    why: str = ""

    def __str__(self) -> str:
        count = "an unknown number of" if self.messages is None else str(self.messages)
        return f"{self.group}: {count} messages" + (f" ({self.why})" if self.why else "")


@dataclass(frozen=True, slots=True)
class DrainStatus:
    """One look at a topic.

    Attributes:
        written: the offset after the newest message, of each queue.
        behind: groups that have not finished, sorted; none: it is drained.
    """

    written: Mapping[MessageQueue, int]
    behind: tuple[Behind, ...] = ()


def new_messages(before: DrainStatus, after: DrainStatus) -> int:
    """How many messages were written between two looks."""
    return sum(end - before.written.get(queue, 0) for queue, end in after.written.items())


QUIET = 35.0
BEHIND_PROXIES = 335.0


def quiet_needed(client: Client) -> float:
    """For how long nothing new must have come before a topic is opened with more queues (seconds).

    Producers renew their routes every 30 s, and a broker takes what one with an old route sends. A
    proxy answers with a route that it has kept for up to 300 s, if nobody asked it in between
    (ProxyConfig: topicRouteServiceCacheExpiredSeconds).

    Raises:
        OrderlyError: whether there are proxies is not known.
    """
    return BEHIND_PROXIES if is_proxied(client) else QUIET


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to watch and wait, in seconds.

    Attributes:
        watch: for new messages before anything is changed.
        quiet: without a new message after writing was closed; see `quiet_needed`.
        timeout: until the topic must be drained.
        every: between two looks.
    """

    watch: float = 5.0
    quiet: float = QUIET
    timeout: float = 600.0
    every: float = 1.0


class Wait:
    """What was seen while a topic drains.

    Args:
        patience: how long it may take.
        now: seconds; when it was closed.

    Attributes:
        reason: why it is not drained yet.
        over: it is.
    """

    def __init__(self, patience: Patience, now: float) -> None:
        self._patience = patience
        self._began = now
        self._still_since = now
        self._last: DrainStatus | None = None
        self.reason = ""
        self.over = False

    def seen(self, standing: DrainStatus, now: float) -> None:
        """Take in a look."""
        if self._last is not None and new_messages(self._last, standing):
            self._still_since = now
        self._last = standing
        quiet = self._patience.quiet
        self.over = not standing.behind and now - self._still_since >= quiet
        self.reason = "; ".join(map(str, standing.behind)) or (
            f"all groups have finished; waiting until nothing new came for {quiet:g} s"
        )

    def unknown(self, error: OrderlyError, now: float) -> None:
        """A look failed: the silence starts over."""
        self.reason = f"not known: {error}"
        self._still_since = now

    def check(self, now: float) -> None:
        """Give up when the time is over.

        Raises:
            OrderlyError: it is; the text says what was waited for.
        """
        if now - self._began >= self._patience.timeout:
            raise OrderlyError(
                f"the topic was not drained within {self._patience.timeout:g} s: {self.reason}."
                " `orderly backlog explain <group>` says why a group is behind; use --ignore-group"
                " for a group that is gone for good, or that you need not wait for"
            )


_BOTH = int(Permission.READ | Permission.WRITE)


@dataclass(frozen=True, slots=True)
class GrowthPlan:
    """The settings that a topic has, and will have, by broker.

    Attributes:
        topic: its name at the brokers.
        queues: on each broker, in the end.
        present: the settings as they are.
    """

    topic: str
    queues: int
    present: Mapping[str, TopicConfig]

    @property
    def needed(self) -> bool:
        """Whether anything is to be changed."""
        return self.grown != dict(self.present)

    @property
    def closed(self) -> dict[str, TopicConfig]:
        """The first step: as it is, but not to be written to."""
        return {name: _closed(config) for name, config in self.present.items()}

    @property
    def widened(self) -> dict[str, TopicConfig]:
        """The second step, when it is drained: with all queues, still not to be written to."""
        return {name: _closed(config) for name, config in self.grown.items()}

    @property
    def grown(self) -> dict[str, TopicConfig]:
        """The last step: open, with all queues."""
        queues = self.queues
        return {
            name: replace(config, read_queues=queues, write_queues=queues, perm=_BOTH)
            for name, config in self.present.items()
        }

    @property
    def pin(self) -> Layout:
        """What producers are to be pinned to from then on."""
        return Layout(tuple((name, self.queues) for name in sorted(self.present)))


def make_plan(
    topic: str, queues: int, present: Mapping[str, TopicConfig], order_conf: str = ""
) -> GrowthPlan:
    """Say how a topic gets `queues` queues on each of its brokers.

    Args:
        topic: its name at the brokers.
        queues: on each broker.
        present: its settings, by broker.
        order_conf: the name server's order configuration of the topic, if it has one.

    Raises:
        ConfigError: that would be fewer, the topic cannot be read, or its layout is not made by
            the brokers' settings.
    """
    if order_conf:
        raise ConfigError(
            f"the queues of {topic} come from the name server's order configuration"
            f" ({order_conf}), which this command does not change: stop the producers, wait until"
            f" `orderly backlog -t {shell_word(topic)}` shows 0 everywhere, then use mqadmin"
            " updateTopic and updateOrderConf"
        )
    for name, config in sorted(present.items()):
        most = max(config.read_queues, config.write_queues)
        if most > queues:
            raise ConfigError(
                f"topic {topic} has {most} queues on broker {name}, more than {queues}: this"
                " command only adds queues, because fewer queues would strand the messages in the"
                f" last ones. Give --queues {most} or more"
            )
        if Permission.READ not in Permission(config.perm):
            raise ConfigError(
                f"topic {topic} is not readable on broker {name}, so it cannot be drained: set its"
                f" permission to 6 (mqadmin updateTopicPerm -t {shell_word(topic)} -p 6)"
            )
    return GrowthPlan(topic, queues, dict(present))


def writable(config: TopicConfig) -> bool:
    """Whether these settings let producers write."""
    return Permission.WRITE in Permission(config.perm)


def _closed(config: TopicConfig) -> TopicConfig:
    return replace(config, perm=config.perm & ~int(Permission.WRITE))


@dataclass(frozen=True, slots=True)
class CheckDrained:
    """How far the topic is drained. Answer: Standing."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Let time pass. Answer: the time then, seconds on a clock that only rises."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Change:
    """Give the topic these settings on one broker. Answer: None."""

    broker: str
    config: TopicConfig


@dataclass(frozen=True, slots=True)
class GrowBookKeeping:
    """Grow the state and park topics of its groups, which must not be smaller. Answer: None."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Show the operator how far it is. Answer: None."""

    text: str


Step = CheckDrained | Pause | Change | GrowBookKeeping | Notice
Steps = Generator[Step, Any, None]


def growing(plan: GrowthPlan, patience: Patience) -> Steps:
    """Close the topic, wait until it is drained, give it more queues, open it again.

    Args:
        plan: what is to be done.
        patience: how long to wait.

    Raises:
        OrderlyError: it is still written to (nothing was changed), was not drained in time (all
            is as it was), or could not be put back, or opened, somewhere (the text says where).
        Exception, KeyboardInterrupt: what was thrown in, after all was put back.
    """
    yield from _not_written(patience.watch)
    touched: dict[str, TopicConfig] = {}
    try:
        yield from _changed(plan, plan.closed, touched)
        yield Notice("writing is closed; waiting until all groups have finished")
        yield from _drained(patience)
        yield GrowBookKeeping()
        yield from _changed(plan, plan.widened, touched)
    except (Exception, KeyboardInterrupt) as error:  # a topic left closed helps nobody
        yield from _put_back(plan.topic, touched, error)
        raise
    yield from _opened(plan)


def _changed(
    plan: GrowthPlan, settings: Mapping[str, TopicConfig], touched: dict[str, TopicConfig]
) -> Steps:
    for broker, config in settings.items():
        touched[broker] = plan.present[broker]  # before: without an answer it may have been done
        yield Change(broker, config)


def _not_written(watch: float) -> Steps:
    """See that nobody writes."""
    yield Notice(f"watching for {watch:g} s for new messages")
    before: DrainStatus = yield CheckDrained()
    yield Pause(watch)
    after: DrainStatus = yield CheckDrained()
    count = new_messages(before, after)
    if count:
        raise OrderlyError(
            f"the topic still gets messages: {count} messages in the last {watch:g} s. Stop its"
            " producers first, or pin them to the new layout, so that they wait; nothing was"
            " changed"
        )


def _drained(patience: Patience) -> Steps:
    """Wait until every group has finished, and nothing new came for a while."""
    now: float = yield Pause(0.0)
    wait = Wait(patience, now)
    while True:
        try:
            standing: DrainStatus = yield CheckDrained()
        except OrderlyError as error:
            wait.unknown(error, now)
        else:
            wait.seen(standing, now)
        if wait.over:
            return
        yield Notice(wait.reason)
        wait.check(now)
        now = yield Pause(patience.every)


def _put_back(topic: str, touched: Mapping[str, TopicConfig], cause: BaseException) -> Steps:
    """Undo; if that fails somewhere, that is the error to raise."""
    if not touched:
        return
    yield Notice("restoring the topic")
    left = yield from _each(touched)
    if left:
        raise OrderlyError(
            f"{topic} could not be restored on broker {_names(left)}, where it can still be closed"
            " for writing: run the command again when the broker is back (it continues from"
            f" there), or mqadmin updateTopicPerm -t {shell_word(topic)} -p 6. The command tried"
            f" to restore it because: {str(cause) or 'the command was interrupted'}"
        ) from cause
    closed = [name for name, config in touched.items() if not writable(config)]
    if closed:
        yield Notice(
            f"it was closed for writing on broker {', '.join(closed)} before this run, and is"
            " closed again now: run the command again, or mqadmin updateTopicPerm -t"
            f" {shell_word(topic)} -p 6"
        )


def _opened(plan: GrowthPlan) -> Steps:
    left = yield from _each(plan.grown)
    if left:
        raise OrderlyError(
            f"{plan.topic} is drained and has its new queues, but is still closed for writing"
            f" on broker {_names(left)}: run the command again; it continues from there"
        ) from next(iter(left.values()))
    yield Notice("writing is open again")


def _each(
    settings: Mapping[str, TopicConfig],
) -> Generator[Step, Any, dict[str, BaseException]]:
    """Do it on every broker, even if some fail; returns the failures by broker."""
    left: dict[str, BaseException] = {}
    for broker, config in settings.items():
        try:
            yield Change(broker, config)
        except (OrderlyError, KeyboardInterrupt) as error:
            left[broker] = error
    return left


def _names(left: Mapping[str, BaseException]) -> str:
    return ", ".join(f"{broker} ({str(error) or 'interrupted'})" for broker, error in left.items())


_BROADCASTING = "broadcasting: its members keep their offsets themselves"
_NEW = "its members have committed nothing yet"


def look(client: Client, topic: str, ignored: Collection[str]) -> DrainStatus:
    """Measure how far a topic is drained; joins nothing and disturbs nobody.

    Args:
        client: need not be started.
        topic: its name at the brokers.
        ignored: groups that do not count.

    Raises:
        OrderlyError: a broker did not answer: nothing is known.
    """
    spans = client.admin.topic_stats(topic)
    groups = [group for group in _groups(client, topic) if group.group not in ignored]
    behind = [found for group in groups if (found := _behind(group, topic)) is not None]
    if not behind and any(span.max_offset > span.min_offset for span in spans.values()):
        behind = list(_unseen(client, topic, {group.group for group in groups}, ignored))
    if not behind:  # reading what is parked costs some requests a queue
        behind = list(_parked(client, topic, groups))
    return DrainStatus({queue: span.max_offset for queue, span in spans.items()}, tuple(behind))


def _groups(client: Client, topic: str) -> list[GroupStatus]:
    snapshot = survey(client, Selection((), (topic,)))
    for broker in snapshot.brokers.values():
        if broker.error is not None:
            raise OrderlyError(f"the groups' offsets could not all be read: {broker.error}")
    return [group for group in snapshot.groups.values() if topic in group.topics]


def _unseen(
    client: Client, topic: str, known: Collection[str], ignored: Collection[str]
) -> Iterator[Behind]:
    """Groups of whose members the brokers' offsets say nothing.

    A stock client commits only after its first success: a first message that hangs shows nowhere
    else. What a broadcasting group has committed is a left-over of other times.
    """
    for group in client.groups.consuming(topic):
        if group in ignored or is_system_group(group):
            continue
        members = client.admin.consumer_connections(group)
        if members is None or topic not in members.subscriptions:
            continue
        if members.message_model == MessageModel.BROADCASTING:
            yield Behind(group, None, _BROADCASTING)
        elif group not in known:
            yield Behind(group, None, _NEW)


def _behind(group: GroupStatus, topic: str) -> Behind | None:
    """What a group has not finished of a topic; None: nothing."""
    counts = [_left(row) for row in group.topics[topic].rows()]
    if None in counts:
        return Behind(group.group, None, "never committed in some queue, or it could not be read")
    total = sum(count for count in counts if count is not None)
    return Behind(group.group, total) if total else None


def _left(row: QueueStatus) -> int | None:
    """Messages of a queue that lie above the committed offset; None: not known.

    All of them, also what a group that keeps order by key has finished ahead: only when the lowest
    is done, too, can no key of the queue be waiting.
    """
    if row.minimum is None or row.maximum is None:
        return None
    if row.maximum == row.minimum:
        return 0
    if row.committed is None:
        return None
    return max(0, row.maximum - max(row.committed, row.minimum))


def _parked(client: Client, topic: str, groups: Collection[GroupStatus]) -> Iterator[Behind]:
    """Groups with parked keys: their later messages would be handled in another queue."""
    present = frozenset(client.admin.topics())
    for group in groups:
        if park_topic(group.group, topic) not in present:
            continue
        keys = ParkedMessages(client, group.group, topic).keys()
        if keys:
            of = f"{shell_word(group.group)} -t {shell_word(topic)}"
            why = f"{counted(len(keys), 'key')} parked: `orderly parked release {of} --all`"
            yield Behind(group.group, None, why)


_ROUTE_PATIENCE = 60.0  # seconds until the name servers must list what the brokers have
_EVERY = 0.2


class TopicGrowth:
    """More queues for one topic. Not thread-safe; every method blocks.

    Args:
        client: of the cluster; need not be started.
        topic: its name at the brokers.
        queues: on each broker, in the end.
        ignored: groups that need not have finished; the broker's names.

    Attributes:
        plan: what is to be done.

    Raises:
        TopicNotFound: there is no such topic.
        ConfigError: it has more queues already, cannot be read, or has an order configuration.
        OrderlyError: a broker of it does not answer.
    """

    def __init__(
        self, client: Client, topic: str, queues: int, ignored: Collection[str] = ()
    ) -> None:
        self._client = client
        self._topic = topic
        self._ignored = frozenset(ignored)
        self._route = client.routes.refresh(topic)
        self.plan = make_plan(topic, queues, self._settings(), self._route.order_conf)

    def _settings(self) -> dict[str, TopicConfig]:
        found: dict[str, TopicConfig] = {}
        for broker in self._route.brokers:
            config = self._client.admin.topic_config(self._topic, broker)
            if config is None:
                raise OrderlyError(
                    f"broker {broker.broker_name} does not know topic {self._topic}, though the"
                    " name server lists it there; try again in a minute"
                )
            found[broker.broker_name] = config
        return found

    def standing(self) -> DrainStatus:
        """How far the topic is drained now.

        Raises:
            OrderlyError: a broker did not answer.
        """
        return look(self._client, self._topic, self._ignored)

    def producers(self) -> dict[str, int] | None:
        """How many producers are connected, by group; None: not known.

        Of all topics, since a broker does not know which ones a producer sends to. Only here an
        idle producer shows. The producer inside every Java client, consumers too, is left out.
        """
        try:
            found = self._client.groups.producers()
        except OrderlyError:
            return None
        return {
            group: len(ids) for group, ids in sorted(found.items()) if not is_system_group(group)
        }

    def run(self, patience: Patience, show: Callable[[str], object]) -> None:
        """Carry the plan out, and wait until the name servers list the new layout.

        Args:
            patience: how long to watch and wait.
            show: gets a line, for people, about how far it is.

        Raises:
            OrderlyError: as `growing`; or it is done, but no name server lists it yet.
            KeyboardInterrupt: Ctrl-C; all was put back as it was, unless `show` was called
                with the news that writing is open again.
        """
        steps = growing(self.plan, patience)
        try:
            step = next(steps)
            while True:
                try:
                    answer = self._carry_out(step, show)
                except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  the steps get it
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration:
            self._wait_until_listed()

    def _carry_out(self, step: Step, show: Callable[[str], object]) -> Any:
        match step:
            case CheckDrained():
                return self.standing()
            case Pause(seconds):
                time.sleep(seconds)
                return time.monotonic()
            case Change(name, config):
                broker = self._route.broker(name)
                assert broker is not None
                self._client.admin.put_topic(config, broker)
            case GrowBookKeeping():
                self._grow_book_keeping()
            case Notice(text):
                show(text)
        return None

    def _grow_book_keeping(self) -> None:
        """Members would do it, too, but leave new queues alone until it is done."""
        admin, present = self._client.admin, frozenset(self._client.admin.topics())
        for group in admin.groups():
            for own in (state_topic(group, self._topic), park_topic(group, self._topic)):
                if own in present:
                    for broker in self._route.brokers:
                        config = admin.topic_config(own, broker)
                        admin.grow_topic(own, broker, self.plan.queues, config)

    def _wait_until_listed(self) -> None:
        give_up = time.monotonic() + _ROUTE_PATIENCE
        while not self._listed():
            if time.monotonic() > give_up:
                raise OrderlyError(
                    f"{self._topic} has its queues at the brokers, but the name server still lists"
                    " another layout: look at `orderly topic show` before producers are started"
                )
            time.sleep(_EVERY)

    def _listed(self) -> bool:
        try:
            route = self._client.routes.refresh(self._topic)
            read = {data.read_queues for data in route.queues}
            return layout_of(route) == self.plan.pin and read == {self.plan.queues}
        except OrderlyError:  # no name server answers, or not one broker is open there
            return False
