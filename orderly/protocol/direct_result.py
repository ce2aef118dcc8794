"""How a member answers when it is told to consume one message directly.

The body of the answer to ConsumeDirectly (ConsumeMessageDirectlyResult).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from orderly.protocol.java_json import dumps
from orderly.protocol.json_values import bool_in, load_object, member_in, text_in, time_in


class DirectOutcome(StrEnum):
    """What the handler made of the message (CMResult); LATER is a suspend."""

    SUCCESS = "CR_SUCCESS"
    LATER = "CR_LATER"
    ROLLBACK = "CR_ROLLBACK"
    COMMIT = "CR_COMMIT"
    THROW_EXCEPTION = "CR_THROW_EXCEPTION"
    RETURN_NULL = "CR_RETURN_NULL"


@dataclass(frozen=True, slots=True)
class DirectResult:
    """The answer.

    Attributes:
        result: what the handler returned, or how it failed.
        auto_commit: whether the handler left the commit to the consumer.
        remark: for people: an exception's text.
        spent: seconds the handler took; whole milliseconds on the wire.
    """

    result: DirectOutcome
    auto_commit: bool = True
    remark: str = ""
    spent: float = 0.0


def encode_direct_result(answer: DirectResult) -> bytes:
    """Write the answer; the consumer is marked as an ordered one."""
    return dumps(
        {
            "order": True,
            "autoCommit": answer.auto_commit,
            "consumeResult": answer.result,
            "remark": answer.remark,
            "spentTimeMills": round(answer.spent * 1000),
        }
    )


def decode_direct_result(body: bytes) -> DirectResult:
    """Read the answer of a member, ordered or not.

    Raises:
        ProtocolError: not such an answer.
    """
    fields = load_object(body)
    return DirectResult(
        member_in(fields, "consumeResult", DirectOutcome),
        bool_in(fields, "autoCommit", default=True),
        text_in(fields, "remark", ""),
        time_in(fields, "spentTimeMills"),
    )
