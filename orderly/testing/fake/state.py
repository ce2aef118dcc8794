"""Everything one broker knows, and what it does of its own accord for several requests."""

from __future__ import annotations

from collections.abc import Iterable

from orderly.protocol.frame import request
from orderly.protocol.headers import NotifyConsumerIdsChanged, to_ext
from orderly.protocol.topic_config import TopicConfig
from orderly.testing.fake.delays import Delays
from orderly.testing.fake.exchange import Outgoing
from orderly.testing.fake.groups import Groups
from orderly.testing.fake.locks import LockTable
from orderly.testing.fake.members import Members
from orderly.testing.fake.name_server import NameServer
from orderly.testing.fake.offsets import Offsets
from orderly.testing.fake.parked import ParkedPulls
from orderly.testing.fake.producers import Producers
from orderly.testing.fake.relays import Relays
from orderly.testing.fake.store import Store
from orderly.testing.fake.topics import Topics


class BrokerState:
    """One broker. Not thread-safe.

    Attributes:
        out: what is to be sent besides the answer to the present request.
        settings: those a request can change; the others have a real broker's defaults.
    """

    def __init__(self, name: str, address: str, name_server: NameServer) -> None:
        self.name = name
        self.address = address
        self.name_server = name_server
        self.topics = Topics()
        self.groups = Groups()
        self.store = Store(name, address)
        self.offsets = Offsets()
        self.delays = Delays()
        self.out: list[Outgoing] = []
        self.settings = {
            "autoCreateSubscriptionGroup": "true",
            "autoCreateTopicEnable": "false",
            "brokerPermission": "6",
        }
        self.boot()

    def boot(self) -> None:
        """Begin anew: disks are kept, memory is not. Then announce what there is."""
        self.locks = LockTable()
        self.members = Members()
        self.producers = Producers()
        self.parked = ParkedPulls()
        self.relays = Relays()
        self.offsets.boot()
        self.name_server.join(self.name, self.address)
        self.announce(self.topics.all())

    def enabled(self, setting: str) -> bool:
        """Whether a yes-or-no setting is on."""
        return self.settings[setting] == "true"

    @property
    def permission(self) -> int:
        """The bits of what this broker may do as a whole: 4 read, 2 write."""
        return int(self.settings["brokerPermission"])

    def announce(self, configs: Iterable[TopicConfig]) -> None:
        """Tell the name server of topics."""
        self.name_server.announce(self.name, configs, self.permission)

    def create_topic(self, config: TopicConfig) -> TopicConfig:
        """Create a topic, or replace its settings."""
        self.topics.put(config)
        self.announce([config])
        return config

    def delete_topic(self, name: str) -> None:
        """Delete a topic, its messages, and what groups have stored of it, all at once.

        Pulls that wait for it go on waiting. The name server is told by others.
        """
        self.topics.remove(name)
        self.store.forget(name)
        self.offsets.forget(name)

    def ensure_topic(self, name: str, queues: int = 1) -> TopicConfig:
        """A topic of the broker's own making, such as a group's retry topic."""
        found = self.topics.get(name)
        return found or self.create_topic(
            TopicConfig(name=name, read_queues=queues, write_queues=queues)
        )

    def notify(self, group: str, connections: Iterable[int]) -> None:
        """Tell members that the group's members or topics changed."""
        header = NotifyConsumerIdsChanged(consumer_group=group)
        config = self.groups.find(group, create=False)
        if config is None or config.notify_members_changed:
            for connection_id in sorted(connections):
                command = request(header.code, to_ext(header), oneway=True)
                self.out.append(Outgoing(connection_id, command))
