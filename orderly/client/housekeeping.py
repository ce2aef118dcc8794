"""Make a group, delete a group, delete a topic: on every broker, and there is no way back."""

from __future__ import annotations

from orderly.client.admin import Admin
from orderly.client.masters import Masters
from orderly.client.name_servers import NameServers
from orderly.client.routes import Routes
from orderly.config import check_group, check_topic
from orderly.errors import BrokerError
from orderly.model import BrokerData
from orderly.protocol.codes import RequestCode
from orderly.protocol.frame import request
from orderly.protocol.group_config import GroupConfig, encode_group_config
from orderly.protocol.headers import DeleteTopicInBroker, DeleteTopicInNameServer, to_ext
from orderly.protocol.member_headers import DeleteGroup


class Housekeeping:
    """Administrative requests that make and delete. Thread-safe; every method blocks.

    The first broker that does not answer is raised, and the others stay as they were: the same
    call again goes on. Names are the broker's, with their namespace.
    """

    def __init__(
        self, masters: Masters, name_servers: NameServers, routes: Routes, admin: Admin
    ) -> None:
        self._masters = masters
        self._admin = admin
        self._name_servers = name_servers
        self._routes = routes

    def put_group(self, config: GroupConfig) -> None:
        """Make a group, or replace its settings.

        For brokers that do not make groups by themselves (autoCreateSubscriptionGroup=false).
        """
        check_group(config.name)
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        command = request(code, body=encode_group_config(config))
        self._masters.ask_each(self._masters.all(), command, f"group {config.name!r} to be made")

    def delete_group(self, group: str) -> None:
        """Delete a group's settings and offsets; its members must be gone, or it comes again.

        Its %RETRY% and %DLQ% topics stay, to be deleted as any topic.
        """
        header = DeleteGroup(group_name=check_group(group), clean_offset=True)
        command = request(header.code, to_ext(header))
        self._masters.ask_each(self._masters.all(), command, f"group {group!r} to be deleted")

    def delete_topic(self, topic: str) -> None:
        """Delete a topic with all its messages; one that is not there is none the less deleted."""
        check_topic(topic)
        for broker in self._masters.all():
            self._delete_at(broker, topic)
        header = DeleteTopicInNameServer(topic=topic)
        what = f"the route of topic {topic!r} to be deleted"
        self._name_servers.ask_all(request(header.code, to_ext(header)), what)
        self._routes.forget(topic)

    def _delete_at(self, broker: BrokerData, topic: str) -> None:
        """Delete it at one broker.

        With timerWheelEnable=false a 5.5.0 broker deletes it and then fails at a counter of its
        timer (AdminBrokerProcessor.deleteTopicInBroker).
        """
        header = DeleteTopicInBroker(topic=topic)
        command = request(header.code, to_ext(header))
        try:
            self._masters.ask(broker, command, f"topic {topic!r} to be deleted")
        except BrokerError:
            if self._admin.topic_config(topic, broker) is not None:
                raise
