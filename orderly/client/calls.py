"""Asking one address and reading its answer: the step that every request of the client shares.

Of a reply that says no, only the code says what happened: successful replies carry remarks, too,
and broken ones the text of a Java exception. Of a refusal the remark chooses the advice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import TypeVar

from orderly.client.connection import Attend
from orderly.client.pool import Connections
from orderly.errors import (
    BrokerBusy,
    BrokerError,
    BrokerUnavailable,
    GroupNotFound,
    NoPermission,
    NotAtProxy,
    OffsetNotFound,
    OrderlyError,
    ProtocolError,
    RemotingError,
    TopicNotFound,
)
from orderly.foreign_text import escaped
from orderly.interruptions import Bell
from orderly.protocol.codes import ResponseCode
from orderly.protocol.frame import RemotingCommand

_SHOWN_REMARK = 200  # characters; the whole text is in BrokerError.remark

_NO_KEY = (
    "it requires an access key; set access_key and secret_key (ORDERLY_ACCESS_KEY and"
    " ORDERLY_SECRET_KEY, or in the settings file); if it is a proxy in the place of a name"
    " server, also set sign_name_server_requests"
)
_NO_POLICY = (
    "the access key's user is not allowed to do this; grant it (mqadmin updateAcl;"
    " docs/how-to/security.md says what is needed), or use another access_key"
)

_NO_PERMISSION_1 = (
    "the access key's account is not allowed to do this; grant it in the broker's access file"
    " (plain_acl.yml, or mqadmin updateAclConfig), or use another access_key"
)

_MEANING: dict[int, tuple[type[BrokerError], str]] = {
    ResponseCode.SYSTEM_ERROR: (BrokerError, "it failed internally; see its log"),
    ResponseCode.SYSTEM_BUSY: (BrokerBusy, "it is busy and did not execute it; try again later"),
    ResponseCode.FLOW_CONTROL: (BrokerBusy, "flow control, not executed; try again later"),
    ResponseCode.SERVICE_NOT_AVAILABLE: (
        BrokerUnavailable,
        "it is out of service and did not execute it; try again when it is back",
    ),
    ResponseCode.GO_AWAY: (
        BrokerUnavailable,
        "it is shutting down and did not execute it; connect again and repeat it",
    ),
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: (
        BrokerError,
        "it does not know this request; is the address the main port of the right kind of server?",
    ),
    ResponseCode.MESSAGE_ILLEGAL: (
        BrokerError,
        "the message is refused; check its size and properties",
    ),
    ResponseCode.VERSION_NOT_SUPPORTED: (BrokerError, "it does not take this client's requests"),
    ResponseCode.NO_PERMISSION: (
        NoPermission,
        "not permitted; check the permissions of broker and topic, and the access rules",
    ),
    ResponseCode.TOPIC_NOT_EXIST: (
        TopicNotFound,
        "the topic is unknown there; check its name or create it (orderly topic create)",
    ),
    ResponseCode.QUERY_NOT_FOUND: (OffsetNotFound, "nothing is stored"),
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: (
        BrokerError,
        "the filter expression is refused; the text says why",
    ),
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: (
        GroupNotFound,
        "the consumer group is unknown there; check its name, or create the group",
    ),
    ResponseCode.INVALID_PARAMETER: (BrokerError, "a parameter is refused; the text says which"),
    ResponseCode.CONSUMER_NOT_ONLINE: (BrokerError, "no member of the consumer group is online"),
    ResponseCode.CONSUME_MSG_TIMEOUT: (
        BrokerError,
        "the member it asked did not answer in time; look at its log, or ask again",
    ),
}
_UNKNOWN = (BrokerError, "it was refused")

# ACL 1.0 refuses by an exception before the request is processed: its code says "failed inside"
# (NettyRemotingAbstract), and only the class in the remark that it is a refusal.
_ACL_1 = "org.apache.rocketmq.acl.common.AclException"

# What the remark of a refusal says beyond the code: words of ACL 2.0 (AuthenticationPipeline,
# AuthorizationPipeline), then of ACL 1.0 (PlainPermissionManager). Only the advice hangs on them.
_ACCESS: tuple[tuple[str, str], ...] = (
    ("username cannot be null", _NO_KEY),
    ("no accesskey is configured", _NO_KEY),
    ("signature failed", "the secret key does not belong to the access key; check secret_key"),
    ("is not found", "it does not know the access key; check access_key, or create the user there"),
    ("no acl config", "it does not know the access key; check access_key, or add the account"),
    ("is disabled", "the user of the access key is disabled; enable it (mqadmin updateUser)"),
    ("no permission to access", _NO_POLICY),
    ("no default permission", _NO_PERMISSION_1),
    ("need admin permission", _NO_PERMISSION_1),
)
_POLICIES = (_NO_POLICY, _NO_PERMISSION_1)

# Proxies take only messages of the type that a topic is declared for, and one with a sharding key
# is FIFO (DefaultTopicMessageTypeValidator).
_WRONG_TYPE = "TopicMessageType validate failed"
_TYPE_ADVICE = (
    "the topic is declared for another type of messages: one with a sharding key needs FIFO, one"
    " without NORMAL, and MIXED takes both (orderly topic create --type fifo; for a topic that"
    " exists mqadmin updateTopic -a +message.type=FIFO)"
)
_AT_PROXY = (
    "it is a proxy, and proxies do not answer this; name the cluster's name servers in its place"
    " (namesrv, ORDERLY_NAMESRV)"
)


def is_of_wrong_type(error: OrderlyError) -> bool:
    """Whether a proxy refused messages for their type alone. To it every batch is NORMAL."""
    return isinstance(error, BrokerError) and _WRONG_TYPE in error.remark


def failure(
    reply: RemotingCommand, address: str, what: str, *, by_proxy: bool = False
) -> BrokerError:
    """Return the error for a reply whose code says no.

    Args:
        reply: the reply.
        address: who sent it.
        what: what was asked, with topic and group: "the route of topic 'orders'".
        by_proxy: whether that is a proxy.
    """
    remark = reply.remark or ""
    refused = reply.code == ResponseCode.SYSTEM_ERROR and remark.startswith(_ACL_1)
    kind, advice = _MEANING.get(ResponseCode.NO_PERMISSION if refused else reply.code, _UNKNOWN)
    if by_proxy and reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        kind, advice = NotAtProxy, _AT_PROXY
    elif reply.code == ResponseCode.MESSAGE_ILLEGAL and _WRONG_TYPE in remark:
        advice = _TYPE_ADVICE
    elif kind is NoPermission:
        words = remark.lower()
        advice = next((better for said, better in _ACCESS if said in words), advice)
    said = f": {escaped(' '.join(remark.split())[:_SHOWN_REMARK])}" if remark else ""
    text = f"{address} was asked for {what}: {advice} ({_code_text(reply.code)}{said})"
    return kind(text, code=reply.code, remark=remark, address=address)


def not_granted(error: OrderlyError | None) -> bool:
    """Whether a server knows the access key, and its user may not do what was asked."""
    words = error.remark.lower() if isinstance(error, NoPermission) else ""
    return any(said in words for said, advice in _ACCESS if advice in _POLICIES)


def _code_text(code: int) -> str:
    try:
        return f"code {code}, {ResponseCode(code).name}"
    except ValueError:
        return f"code {code}"


# --- calls ----------------------------------------------------------------------------------------


R = TypeVar("R")

ONLY_SUCCESS = frozenset({ResponseCode.SUCCESS})


class Calls:
    """Requests over a client's connections, checked for their response code. Thread-safe.

    Args:
        connections: of the client.
        timeout: seconds for each reply, unless a call says otherwise.
    """

    def __init__(self, connections: Connections, timeout: float) -> None:
        self._connections = connections
        self._timeout = timeout

    def is_proxy(self, address: str) -> bool:
        """Whether a proxy answers there, as far as that is known."""
        return address in self._connections.proxies

    def note_proxies(self, addresses: Iterable[str]) -> None:
        """Note that proxies answer there."""
        self._connections.proxies.update(addresses)

    def connected(self, address: str) -> bool:
        """Whether there is an open connection to `address`."""
        return self._connections.connected(address) is not None

    def ask(
        self,
        address: str,
        command: RemotingCommand,
        what: str,
        *,
        timeout: float | None = None,
        accept: Collection[int] = ONLY_SUCCESS,
    ) -> RemotingCommand:
        """Send a request and wait for its reply; connects if need be.

        Args:
            address: "host:port".
            command: the request.
            what: what is asked, for the error's text, with topic and group.
            timeout: seconds for the reply.
            accept: response codes that are answers, not errors.

        Raises:
            RemotingError: no connection or no reply.
            BrokerError: a reply with a code that is not in `accept`.
        """
        limit = self._timeout if timeout is None else timeout
        reply = self._connections.get(address).call(command, limit)
        if reply.code not in accept:
            raise failure(reply, address, what, by_proxy=self.is_proxy(address))
        return reply

    def ask_all(
        self,
        addresses: Iterable[str],
        command: Callable[[], RemotingCommand],
        what: str,
        *,
        timeout: float | None = None,
    ) -> dict[str, OrderlyError | None]:
        """Send a request to several addresses, and wait for all: those that hang do so together.

        Connects if need be, to one after the other, once the others have their request.

        Args:
            addresses: "host:port" each.
            command: makes the request.
            what: as in `ask`.
            timeout: seconds for each reply.

        Returns:
            By address what went wrong; None: a reply with code SUCCESS.
        """
        limit = self._timeout if timeout is None else timeout
        asked, answers, bell = sorted(set(addresses)), dict[str, OrderlyError | None](), Bell()

        def check(reply: RemotingCommand, address: str) -> None:
            if reply.code not in ONLY_SUCCESS:
                raise failure(reply, address, what, by_proxy=self.is_proxy(address))

        def put(address: str, error: OrderlyError | None) -> None:
            answers[address] = error
            bell.ring()

        for address in sorted(asked, key=self.connected, reverse=True):
            told = partial(put, address)
            try:
                self.submit(address, command(), check, told, timeout=limit, may_connect=True)
            except OrderlyError as error:
                told(error)
        bell.wait_for(lambda: len(answers) == len(asked), None)
        return {address: answers[address] for address in asked}

    def submit(
        self,
        address: str,
        command: RemotingCommand,
        read: Callable[[RemotingCommand, str], R],
        on_result: Callable[[R | OrderlyError], None],
        *,
        timeout: float,
        may_connect: bool,
        attended: bool = False,
    ) -> Attend | None:
        """Send a request and return; `on_result` gets what `read` makes of the reply.

        Args:
            address: "host:port".
            command: the request.
            read: turns reply and address into the result, or raises OrderlyError; on the reader
                thread.
            on_result: called exactly once if the request went out, on the reader thread (a
                time-out: on a timer thread); must not block.
            timeout: seconds for the reply.
            may_connect: False on threads that must not block.
            attended: the caller waits, and calls what is returned; see `Connection.submit`.

        Returns:
            What reads the reply on the calling thread. None if there is no connection and
            `may_connect` is False: nothing was sent.

        Raises:
            RemotingError: nothing was executed and `on_result` is not called.
        """
        connect = self._connections.get if may_connect else self._connections.connected
        connection = connect(address)
        if connection is None:
            return None

        here = threading.get_ident() if attended else None

        def on_reply(outcome: RemotingCommand | RemotingError) -> None:
            if isinstance(outcome, RemotingError):
                on_result(outcome)
                return
            try:
                result: R | OrderlyError = read(outcome, address)
            except OrderlyError as error:
                result = error
            except Exception as error:
                if threading.get_ident() == here:  # an alarm's, perhaps; the reader tries again
                    raise
                result = ProtocolError(f"the reply of {address} could not be read: {error!r}")
                result.__cause__ = error
            on_result(result)

        return connection.submit(command, timeout, on_reply, attended)
