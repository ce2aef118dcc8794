"""Requests that brokers send to us. Each one that wants an answer gets one at once.

Runs on reader threads: answering is a write, which never blocks.
"""

from __future__ import annotations

from collections.abc import Callable

from orderly.log import get_logger
from orderly.protocol.codes import RequestCode, ResponseCode
from orderly.protocol.frame import RemotingCommand, reply_to
from orderly.protocol.headers import NotifyConsumerIdsChanged, from_ext
from orderly.remoting.connection import Connection

_log = get_logger("orderly.client")


def answer_peer(
    connection: Connection,
    command: RemotingCommand,
    *,
    on_members_changed: Callable[[str], None],
) -> None:
    """Deal with a broker's request.

    Args:
        connection: it came on.
        command: the request.
        on_members_changed: called with the group when its members or topics changed; must not
            block.

    Raises:
        ProtocolError: a request without the fields it must have.
        ConnectionLost: the answer did not go out.
    """
    if command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
        on_members_changed(from_ext(NotifyConsumerIdsChanged, command.ext).consumer_group)
        return
    _log.debug("request of a broker refused", address=connection.address, request=command.code)
    if not command.is_oneway:
        connection.reply(
            reply_to(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=_REFUSAL)
        )


_REFUSAL = "this client (orderly, Python) does not answer this request; ask the brokers instead"
