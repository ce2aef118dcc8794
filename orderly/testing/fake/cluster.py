"""A whole cluster as one pure machine: a name server, brokers, and the connections to them.

Commands and a time go in, commands come out; there is no socket, thread or clock. What happens
only because time passes happens in `tick`; `next_event` says when that is worth calling.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from orderly.errors import ConfigError
from orderly.protocol.frame import RemotingCommand
from orderly.protocol.topic_config import TopicConfig
from orderly.testing.fake import pulling, sending
from orderly.testing.fake.dispatch import answer
from orderly.testing.fake.exchange import Call, Outgoing
from orderly.testing.fake.name_server import NameServer
from orderly.testing.fake.parked import next_scan
from orderly.testing.fake.state import BrokerState

NAME_SERVER = ""  # in place of a broker's name
CLUSTER = "DefaultCluster"


class FakeCluster:
    """The machine. Not thread-safe. Times are seconds since the epoch.

    Args:
        brokers: "ip:port" by broker name; only clients connect to it.
    """

    def __init__(self, brokers: Mapping[str, str]) -> None:
        self.name_server = NameServer(CLUSTER)
        self.brokers = {n: BrokerState(n, at, self.name_server) for n, at in brokers.items()}
        self._down: set[str] = set()
        self._peers: dict[int, tuple[str, str]] = {}
        self._scan_at = 0.0

    # --- connections ---------------------------------------------------------------------------

    def connected(self, connection_id: int, server: str, peer: str) -> None:
        """A client connected to a broker, or to NAME_SERVER, from `peer` ("ip:port")."""
        self._peers[connection_id] = (server, peer)

    def disconnected(self, connection_id: int) -> list[Outgoing]:
        """A connection ended: its memberships and its waiting requests with it."""
        server, _ = self._peers.pop(connection_id, (NAME_SERVER, ""))
        state = self.brokers.get(server)
        if state is None:
            return []
        state.parked.drop(connection_id)
        state.producers.disconnected(connection_id)
        for group in state.members.groups_of(connection_id):
            state.notify(group, state.members.remove(group, connection_id))
        state.out += state.relays.disconnected(connection_id)
        return self._sent([state])

    def handle(self, connection_id: int, command: RemotingCommand, now: float) -> list[Outgoing]:
        """Take in a request, or a member's answer; returns what is sent because of it."""
        server, peer = self._peers[connection_id]
        state = self.name_server if server == NAME_SERVER else self.brokers[server]
        if command.is_response:
            if isinstance(state, BrokerState):
                state.out += state.relays.answered(connection_id, command)
            return self._sent(self.brokers.values())
        if isinstance(state, BrokerState):
            state.offsets.elapse(now)
        reply = answer(state, Call(connection_id, peer, command, now))
        out = self._sent([state]) if isinstance(state, BrokerState) else []
        if reply is not None and not command.is_oneway:
            out.append(Outgoing(connection_id, reply))
        return out

    # --- time ----------------------------------------------------------------------------------

    def tick(self, now: float) -> list[Outgoing]:
        """Do what is due: end waits, deliver delayed messages, drop silent members."""
        self._scan_at = min(self._scan_at, next_scan(now))  # the clock may have been put back
        up = [state for name, state in self.brokers.items() if name not in self._down]
        for state in up:
            sending.deliver_delayed(state, now)
            state.out += state.relays.expire(now)
            for group, connection_id in state.members.silent(now):
                state.notify(group, state.members.remove(group, connection_id))
            if now >= self._scan_at:
                pulling.scan(state, now)
        self._scan_at = next_scan(now) if now >= self._scan_at else self._scan_at
        return self._sent(up)

    def next_event(self, now: float) -> float | None:
        """When `tick` is next needed; None: not before another request."""
        times: list[float | None] = []
        for name, state in self.brokers.items():
            if name not in self._down:
                times += (state.delays.next_due(), state.relays.next_deadline())
                times.append(state.members.next_silence())
                times.append(max(self._scan_at, now) if state.parked.queues() else None)
        return min((time for time in times if time is not None), default=None)

    # --- what tests do -------------------------------------------------------------------------

    def create_topic(self, name: str, queues: int, brokers: Iterable[str] = ()) -> None:
        """Create an ordered topic on all brokers, or on some."""
        for broker in brokers or self.brokers:
            config = TopicConfig(name=name, read_queues=queues, write_queues=queues, order=True)
            self._state(broker).create_topic(config)

    def delete_topic(self, name: str, brokers: Iterable[str] = ()) -> None:
        """Delete a topic with its messages and the groups' offsets; on all brokers, or on some.

        The name server forgets it where no broker is left out.
        """
        for broker in brokers or self.brokers:
            self._state(broker).delete_topic(name)
        if not brokers:
            self.name_server.forget(name)

    def stop_broker(self, name: str) -> None:
        """A broker ends in an orderly way; the caller ends its connections. Its disks are kept."""
        if name not in self._down:
            self._state(name).offsets.flush()
        self._leave(name)

    def kill_broker(self, name: str, now: float) -> None:
        """A broker ends at once (kill -9): offsets committed since the last flush are lost."""
        if name not in self._down:
            offsets = self._state(name).offsets
            offsets.elapse(now)
            offsets.lose()
        self._leave(name)

    def _leave(self, name: str) -> None:
        self._state(name)
        self._down.add(name)
        self.name_server.leave(name)

    def start_broker(self, name: str) -> None:
        """It is back, with what its disks keep: not its locks, nor marks of offset resets."""
        self._state(name).boot()
        self._down.discard(name)

    def _state(self, broker: str) -> BrokerState:
        state = self.brokers.get(broker)
        if state is None:
            raise ConfigError(f"there is no broker {broker!r}; there are: {sorted(self.brokers)}")
        return state

    @staticmethod
    def _sent(states: Iterable[BrokerState]) -> list[Outgoing]:
        out = []
        for state in states:
            out += state.out
            state.out = []
        return out
