"""The question whether a broker understands a subscription's filter.

The body of RequestCode.CHECK_CLIENT_CONFIG (CheckClientRequestBody). Brokers look only at
expressions that are not tags.
"""

from __future__ import annotations

from dataclasses import dataclass

from orderly.protocol.heartbeat import Subscription, subscription_from_json, subscription_to_json
from orderly.protocol.java_json import dumps
from orderly.protocol.json_values import load_object, object_in, text_in


@dataclass(frozen=True, slots=True)
class FilterCheck:
    """Who wants to subscribe to what."""

    client_id: str
    group: str
    subscription: Subscription


def encode_filter_check(check: FilterCheck) -> bytes:
    """Write the question."""
    return dumps(
        {
            "clientId": check.client_id,
            "group": check.group,
            "subscriptionData": subscription_to_json(check.subscription),
        }
    )


def decode_filter_check(body: bytes) -> FilterCheck:
    """Read the question.

    Raises:
        ProtocolError: not such a question.
    """
    fields = load_object(body)
    return FilterCheck(
        text_in(fields, "clientId"),
        text_in(fields, "group"),
        subscription_from_json(object_in(fields, "subscriptionData")),
    )
