"""Members that no broker knows of: those of a proxy.

A proxy in cluster mode keeps its gRPC clients to itself, and brokers answer that nobody of such a
group is online. Proxies tell each other of their clients in a topic of their own, every 10 s or so
for each client (HeartbeatSyncer): while that grows, there is one.
"""

from __future__ import annotations

import time

from orderly.errors import OrderlyError
from orderly.monitoring.collecting.asking import Asking
from orderly.monitoring.collecting.names import PROXY_TOPIC
from orderly.monitoring.collecting.questions import topic_stats

_FRESH = 60.0  # seconds; clocks that differ by more hide a proxy
HIDDEN = {"proxy": "a proxy is there, and brokers do not know who is connected to it"}
"""In the place of errors of brokers that could not say who is connected."""


def may_be_hidden(asking: Asking) -> bool:
    """Whether a proxy has told of clients of its own lately. Blocks; asks once where one may be."""
    answers = asking.ask([(broker, topic_stats(PROXY_TOPIC)) for broker in asking.proxied])
    updated = [
        offsets.last_update_time
        for answer in answers
        if not isinstance(answer, OrderlyError)
        for offsets in answer.values()
    ]
    return abs(time.time() - max(updated, default=0.0)) < _FRESH
