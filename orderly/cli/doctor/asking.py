"""One question to one address, whatever becomes of it: the answer, the error, and both times."""

from __future__ import annotations

import time
from dataclasses import dataclass

from orderly.client import Client
from orderly.client.replies import failure
from orderly.errors import OrderlyError
from orderly.protocol.codes import RequestCode
from orderly.protocol.frame import RemotingCommand, request


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a question.

    Attributes:
        version: number of the server's release; None: it did not answer.
        body: of an answer that says yes.
        error: why there is none.
        sent, came: seconds since the epoch, by our clock.
    """

    version: int | None
    body: bytes
    error: OrderlyError | None
    sent: float
    came: float


def ask(client: Client, address: str, code: RequestCode, what: str) -> Answer:
    """Ask a request without a header; connects before, so that the times are the answer's alone.

    Args:
        client: to ask with; its time-outs hold.
        address: "host:port".
        code: of the request.
        what: is asked, for the error's text.
    """
    sent = time.time()
    reply: RemotingCommand | None = None
    error: OrderlyError | None = None
    try:
        connection = client.connections.get(address)
        sent = time.time()
        reply = connection.call(request(code), client.config.request_timeout)
        if reply.code != 0:
            error = failure(reply, address, what)
    except OrderlyError as silence:
        error = silence
    version = None if reply is None else reply.version
    body = b"" if reply is None or error is not None else reply.body
    return Answer(version, body, error, sent, time.time())
