"""A whole cluster as one pure machine: a name server, brokers, and the connections to them.

Commands and a time go in, commands come out; there is no socket, thread or clock. What happens
only because time passes happens in `tick`; `next_event` says when that is worth calling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from orderly.errors import ConfigError, OrderlyError
from orderly.protocol.codes import RequestCode as Code
from orderly.protocol.codes import ResponseCode
from orderly.protocol.frame import RemotingCommand
from orderly.protocol.topics import TopicConfig
from orderly.testing.fake import administration, membership, name_server, pulling, reading, sending
from orderly.testing.fake.exchange import Call, Outgoing, RequestRefused
from orderly.testing.fake.name_server import NameServer
from orderly.testing.fake.proxy import FakeProxy
from orderly.testing.fake.state import BrokerState, next_scan

NAME_SERVER, PROXY = "", "\x00proxy"  # in place of a broker's name
CLUSTER = "DefaultCluster"


class FakeCluster:
    """The machine. Not thread-safe. Times are seconds since the epoch.

    Args:
        brokers: "ip:port" by broker name; only clients connect to it.
        proxy: that of the proxy.
    """

    def __init__(self, brokers: Mapping[str, str], proxy: str = "") -> None:
        self.name_server = NameServer(CLUSTER)
        self.brokers = {n: BrokerState(n, at, self.name_server) for n, at in brokers.items()}
        self.proxy = FakeProxy(proxy, self.name_server, self._running, carry_out)
        self._down: set[str] = set()
        self._peers: dict[int, tuple[str, str]] = {}
        self._scan_at = 0.0

    # --- connections ---------------------------------------------------------------------------

    def connected(self, connection_id: int, server: str, peer: str) -> None:
        """A client connected to a broker, to NAME_SERVER or PROXY, from `peer` ("ip:port")."""
        self._peers[connection_id] = (server, peer)

    def disconnected(self, connection_id: int) -> list[Outgoing]:
        """A connection ended: its memberships and its waiting requests with it."""
        server, _ = self._peers.pop(connection_id, (NAME_SERVER, ""))
        if server == PROXY:
            self.proxy.disconnected(connection_id)
            for broker in self.brokers.values():
                broker.parked.drop(connection_id)
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
        state = self._machine(server)
        if command.is_response:
            if isinstance(state, BrokerState):
                state.out += state.relays.answered(connection_id, command)
            return self._sent(self.brokers.values())
        behind = self._behind(server)
        for broker in behind:
            broker.offsets.elapse(now)
        reply = answer(state, Call(connection_id, peer, command, now))
        out = self._sent(behind)
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

    def _running(self) -> dict[str, BrokerState]:
        return {name: it for name, it in self.brokers.items() if name not in self._down}

    def _behind(self, server: str) -> list[BrokerState]:
        """The brokers that a request to a server may change."""
        if server == PROXY:
            return list(self._running().values())
        return [self.brokers[server]] if server in self.brokers else []

    def _machine(self, server: str) -> Machine:
        if server == NAME_SERVER:
            return self.name_server
        return self.proxy if server == PROXY else self.brokers[server]

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


# --- which request goes where ---------------------------------------------------------------------


Machine = BrokerState | NameServer | FakeProxy
OfBroker = Callable[[BrokerState, Call], RemotingCommand | None]
OfNameServer = Callable[[NameServer, Call], RemotingCommand]

BROKER_REQUESTS: Mapping[int, OfBroker] = {
    Code.PULL_MESSAGE: pulling.pull,
    Code.QUERY_MESSAGE: reading.query_message,
    Code.QUERY_CONSUMER_OFFSET: reading.query_offset,
    Code.UPDATE_CONSUMER_OFFSET: reading.update_offset,
    Code.UPDATE_AND_CREATE_TOPIC: administration.create_topic,
    Code.GET_ALL_TOPIC_CONFIG: administration.topic_list,
    Code.UPDATE_BROKER_CONFIG: administration.change_settings,
    Code.GET_BROKER_CONFIG: administration.settings,
    Code.GET_BROKER_RUNTIME_INFO: administration.running,
    Code.SEARCH_OFFSET_BY_TIMESTAMP: reading.search_offset,
    Code.GET_MAX_OFFSET: reading.max_offset,
    Code.GET_MIN_OFFSET: reading.min_offset,
    Code.VIEW_MESSAGE_BY_ID: reading.view_message,
    Code.HEART_BEAT: membership.heartbeat,
    Code.UNREGISTER_CLIENT: membership.unregister,
    Code.GET_CONSUMER_LIST_BY_GROUP: membership.client_ids,
    Code.LOCK_BATCH_MQ: membership.lock,
    Code.UNLOCK_BATCH_MQ: membership.unlock,
    Code.GET_ALL_CONSUMER_OFFSET: reading.all_offsets,
    Code.CHECK_CLIENT_CONFIG: membership.check_client,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: administration.put_group,
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: administration.group_list,
    Code.DELETE_SUBSCRIPTIONGROUP: administration.delete_group,
    Code.GET_TOPIC_STATS_INFO: reading.topic_stats,
    Code.GET_CONSUMER_CONNECTION_LIST: membership.connections,
    Code.GET_PRODUCER_CONNECTION_LIST: membership.producer_connections,
    Code.GET_CONSUME_STATS: reading.consume_stats,
    Code.DELETE_TOPIC_IN_BROKER: administration.delete_topic,
    Code.INVOKE_BROKER_TO_RESET_OFFSET: reading.reset_offsets,
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: membership.offsets_of_members,
    Code.QUERY_TOPIC_CONSUME_BY_WHO: administration.groups_of_topic,
    Code.QUERY_CONSUME_TIME_SPAN: reading.time_spans,
    Code.GET_CONSUMER_RUNNING_INFO: membership.running_info,
    Code.CONSUME_MESSAGE_DIRECTLY: membership.consume_directly,
    Code.SEND_MESSAGE_V2: sending.send,
    Code.SEND_BATCH_MESSAGE: sending.send_batch,
    Code.QUERY_CONSUME_QUEUE: reading.consume_queue,
    Code.GET_ALL_PRODUCER_INFO: membership.producers,
    Code.QUERY_TOPICS_BY_CONSUMER: administration.topics_of_group,
    Code.GET_TOPIC_CONFIG: administration.topic_config,
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: administration.group_config,
}

NAME_SERVER_REQUESTS: Mapping[int, OfNameServer] = {
    Code.GET_ROUTEINFO_BY_TOPIC: name_server.route,
    Code.GET_BROKER_CLUSTER_INFO: name_server.clusters,
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: name_server.topic_list,
    Code.DELETE_TOPIC_IN_NAMESRV: name_server.delete_topic,
}


def answer(state: Machine, call: Call) -> RemotingCommand | None:
    """Carry a request out. None: no answer, or not yet."""
    try:
        if isinstance(state, NameServer):
            return NAME_SERVER_REQUESTS.get(call.command.code, _unknown)(state, call)
        return carry_out(state, call) if isinstance(state, BrokerState) else state.answer(call)
    except RequestRefused as refusal:
        return call.reply(refusal.code, refusal.remark, ext=refusal.ext)
    except (OrderlyError, UnicodeError) as error:  # as Java's exceptions leak
        return call.reply(ResponseCode.SYSTEM_ERROR, str(error))


def carry_out(state: BrokerState, call: Call) -> RemotingCommand | None:
    """Carry a broker's request out.

    Raises:
        RequestRefused, OrderlyError, UnicodeError: it does not.
    """
    return BROKER_REQUESTS.get(call.command.code, _unknown)(state, call)


def _unknown(state: object, call: Call) -> RemotingCommand:  # noqa: ARG001
    remark = f" request type {call.command.code} not supported"
    return call.reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)
