"""What the brokers hold of the topics to be read: their queues, and each queue's span.

One request a topic and broker, to all brokers at once. A broker that does not answer is part of
the answer: whether that matters depends on who asks.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from orderly.client import Client
from orderly.client.gate import Limits
from orderly.client.pipeline import Pipeline, Question
from orderly.errors import ConfigError, OrderlyError, RouteError, TopicNotFound
from orderly.model import MessageQueue, TopicRoute
from orderly.monitoring.collecting.names import is_system_topic
from orderly.monitoring.collecting.questions import topic_stats
from orderly.namespace import DEAD_PREFIX, RETRY_PREFIX, unwrap, wrap
from orderly.protocol.stats_bodies import TopicOffset
from orderly.spark.offsets.losses import Span
from orderly.spark.options.parsing import Selection

R = TypeVar("R")
Answers = dict[str, list[R | OrderlyError]]

_PATIENCE = 10.0  # seconds for all questions of one round


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen at one moment.

    Attributes:
        spans: by queue.
        silent: why nothing is known of a (topic, broker); of ("orders", "") of all its brokers.
        up: names of the brokers that were up before and after, so that a queue of theirs that was
            not seen is gone.
    """

    spans: Mapping[MessageQueue, Span]
    silent: Mapping[tuple[str, str], OrderlyError]
    up: frozenset[str] = frozenset()

    def whole(self) -> Look:
        """Itself, if everybody answered.

        Raises:
            OrderlyError: what the first one said that did not.
        """
        for error in self.silent.values():
            raise error
        return self

    def gone(self, queue: MessageQueue) -> bool:
        """Whether the queue is no more, and not only out of reach."""
        topic, broker = queue.topic, queue.broker_name
        routed = isinstance(self.silent.get((topic, "")), TopicNotFound | None)
        answered = routed and (topic, broker) not in self.silent
        return answered and queue not in self.spans and broker in self.up


def look(client: Client, topics: Sequence[str]) -> Look:
    """Look at topics, each queue that can be read.

    Args:
        client: asks; its topics are the broker's names, with their namespace.
        topics: the same.
    """
    silent: dict[tuple[str, str], OrderlyError] = {}
    routes: dict[str, TopicRoute] = {}
    for topic in topics:
        try:
            routes[topic] = client.routes.refresh(topic)
        except OrderlyError as error:
            silent[topic, ""] = error
    answers = _ask_each(client, routes, silent)
    spans = {
        queue: Span(answer[queue].min_offset, answer[queue].max_offset)
        for (topic, broker), answer in answers.items()
        for queue in routes[topic].read_queues()
        if queue.broker_name == broker and queue in answer
    }
    return Look(spans, silent)


def look_closely(client: Client, topics: Sequence[str]) -> Look:
    """Look, and also at which brokers are up.

    A queue that is missing may be gone, or its broker restarting: one that ends takes its queues
    out of the routes. So the list of brokers is read before the routes and after.
    """
    before = _brokers_up(client)
    seen = look(client, topics)
    return Look(seen.spans, seen.silent, before & _brokers_up(client))


def look_again(client: Client, topics: Sequence[str], known: Collection[MessageQueue]) -> Look:
    """Look at topics of which queues are `known`, closely only if one of them is missing."""
    seen = look(client, topics)
    missing = [queue for queue in known if queue not in seen.spans]
    if all((queue.topic, queue.broker_name) in seen.silent for queue in missing):
        return seen
    return look_closely(client, topics)


def names(client: Client, selection: Selection) -> tuple[str, ...]:
    """The topics selected, by the broker's names.

    Raises:
        ConfigError: a pattern that matches none.
        NameServerUnavailable: it has to be asked which there are, and none answered.
    """
    namespace = client.config.namespace
    if not selection.pattern:
        return tuple(wrap(namespace, topic) for topic in selection.topics)
    users = [
        topic
        for topic in client.admin.topics()
        if not _internal(topic) and wrap(namespace, topic) == topic  # not another tenant's
    ]
    found = [topic for topic in users if re.fullmatch(selection.pattern, unwrap(namespace, topic))]
    if not found:
        raise ConfigError(
            f"topicPattern={selection.pattern!r} matches none of the {len(users)} topics; it must"
            " match a whole name, as in 'orders.*'"
        )
    return tuple(found)


def selected(client: Client, selection: Selection, queue: MessageQueue) -> bool:
    """Whether a queue, by the broker's name of its topic, is among what is read."""
    namespace = client.config.namespace
    if wrap(namespace, queue.topic) != queue.topic:
        return False  # another tenant's
    bare = unwrap(namespace, queue.topic)
    if selection.pattern:
        return re.fullmatch(selection.pattern, bare) is not None
    if selection.queues is None:
        return not {queue.topic, bare}.isdisjoint(selection.topics)
    return not selection.queues.isdisjoint({queue, replace(queue, topic=bare)})


def _internal(topic: str) -> bool:
    return topic.startswith((RETRY_PREFIX, DEAD_PREFIX)) or is_system_topic(topic)


def _ask_each(
    client: Client,
    routes: Mapping[str, TopicRoute],
    silent: dict[tuple[str, str], OrderlyError],
) -> dict[tuple[str, str], dict[MessageQueue, TopicOffset]]:
    """The spans that each broker tells of each topic; who did not is put into `silent`."""
    asked: dict[str, list[tuple[str, str]]] = {}
    for topic, route in routes.items():
        for broker in route.brokers:
            if broker.master is None:
                silent[topic, broker.broker_name] = RouteError(
                    f"broker {broker.broker_name!r} has no master at the moment, and topic"
                    f" {topic!r} has queues there; wait until it is back"
                )
            else:
                asked.setdefault(broker.master, []).append((topic, broker.broker_name))
    questions: dict[str, list[Question[dict[MessageQueue, TopicOffset]]]] = {
        address: [topic_stats(topic) for topic, _ in pairs] for address, pairs in asked.items()
    }
    told = ask_each(client, questions)
    answers: dict[tuple[str, str], dict[MessageQueue, TopicOffset]] = {}
    for address, pairs in asked.items():
        for pair, answer in zip(pairs, told[address], strict=True):
            if isinstance(answer, OrderlyError):
                silent[pair] = answer
            else:
                answers[pair] = answer
    return answers


def ask_each(client: Client, questions: Mapping[str, list[Question[R]]]) -> Answers[R]:
    """Ask several addresses side by side; an error is an answer, too."""
    limits = Limits(patience=client.config.request_timeout)
    pipeline = Pipeline(client.connections, limits)
    return pipeline.ask_each(questions, time.monotonic() + _PATIENCE)


def _brokers_up(client: Client) -> frozenset[str]:
    try:
        brokers = client.admin.cluster().brokers
    except OrderlyError:
        return frozenset()
    return frozenset(name for name, broker in brokers.items() if broker.master)
