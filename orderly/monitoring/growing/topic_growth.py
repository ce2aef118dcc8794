"""A topic grows: the plan is made from what the brokers say, and its steps are carried out."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any

from orderly.client import Client
from orderly.errors import OrderlyError
from orderly.monitoring.collecting.names import is_system_group
from orderly.monitoring.growing.looking import look
from orderly.monitoring.growing.plan import make_plan
from orderly.monitoring.growing.standing import Standing
from orderly.monitoring.growing.steps import (
    Change,
    GrowBookKeeping,
    Look,
    Pause,
    Step,
    Tell,
    growing,
)
from orderly.monitoring.growing.waiting import Patience
from orderly.ordering.state.topic import park_topic, state_topic
from orderly.protocol.topic_config import TopicConfig
from orderly.selectors.layout import layout_of

_ROUTE_PATIENCE = 60.0  # seconds until the name servers must tell of what the brokers were told
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

    def standing(self) -> Standing:
        """How far the topic is drained now.

        Raises:
            OrderlyError: a broker did not answer.
        """
        return look(self._client, self._topic, self._ignored)

    def producers(self) -> dict[str, int] | None:
        """How many producers are connected, by group; None: not known.

        Of whatever topic: which ones they send to nobody knows, and an idle one shows nowhere else.
        That of every Java client, consumers too, is left out.
        """
        try:
            found = self._client.groups.producers()
        except OrderlyError:
            return None
        return {
            group: len(ids) for group, ids in sorted(found.items()) if not is_system_group(group)
        }

    def run(self, patience: Patience, tell: Callable[[str], object]) -> None:
        """Carry the plan out, and wait until the name servers tell the new layout.

        Args:
            patience: how long to watch and wait.
            tell: told, for people, how far it is.

        Raises:
            OrderlyError: as `growing`; or it is done, but no name server tells it yet.
            KeyboardInterrupt: Ctrl-C; all was put back as it was, unless `tell` was told that
                writing is open again.
        """
        steps = growing(self.plan, patience)
        try:
            step = next(steps)
            while True:
                try:
                    answer = self._carry_out(step, tell)
                except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  it is told the steps
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration:
            self._until_told()

    def _carry_out(self, step: Step, tell: Callable[[str], object]) -> Any:
        match step:
            case Look():
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
            case Tell(text):
                tell(text)
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

    def _until_told(self) -> None:
        give_up = time.monotonic() + _ROUTE_PATIENCE
        while not self._told():
            if time.monotonic() > give_up:
                raise OrderlyError(
                    f"{self._topic} has its queues at the brokers, but the name server still tells"
                    " another layout: look at `orderly topic show` before producers are started"
                )
            time.sleep(_EVERY)

    def _told(self) -> bool:
        try:
            route = self._client.routes.refresh(self._topic)
            read = {data.read_queues for data in route.queues}
            return layout_of(route) == self.plan.pin and read == {self.plan.queues}
        except OrderlyError:  # no name server answers, or not one broker is open there
            return False
