"""Which producers are connected to a broker: the answer to code 328 (ProducerTableInfo)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from orderly.protocol.java_json import dumps
from orderly.protocol.json_values import as_object, load_object, object_in, text_in


def encode_producers(groups: Mapping[str, Iterable[str]]) -> bytes:
    """Write client ids by producer group."""
    table = {group: [{"clientId": one} for one in ids] for group, ids in groups.items()}
    return dumps({"data": table})


def decode_producers(body: bytes) -> dict[str, tuple[str, ...]]:
    """Read client ids by producer group.

    Raises:
        ProtocolError: not such a table.
    """
    table = object_in(load_object(body), "data")
    return {
        group: tuple(text_in(as_object(one, "a producer"), "clientId") for one in producers or ())
        for group, producers in table.items()
    }
