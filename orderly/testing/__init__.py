"""For users' tests and trials: real and fake brokers, an order oracle, a pytest plugin.

The names are imported when they are first used: a command that only looks for a running broker
does not pay for the rest.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orderly.listening.samples import attempt, context, received
    from orderly.testing.container import ContainerUnavailable, RocketMQContainer
    from orderly.testing.drained import NotDrained, run_until_drained
    from orderly.testing.embedded import EmbeddedBroker, EmbeddedCluster
    from orderly.testing.fake.broker import FakeBroker
    from orderly.testing.fake.faults import Cut, Delay, DropRequest, DropResponse, Fail, Fault
    from orderly.testing.jars import JarsUnavailable
    from orderly.testing.java import JavaNotFound
    from orderly.testing.oracle import Delivered, Sent, Verdict, judge
    from orderly.testing.proxy import EmbeddedProxy
    from orderly.testing.readiness import BrokerStartFailed

__all__ = [
    "BrokerStartFailed",
    "ContainerUnavailable",
    "Cut",
    "Delay",
    "Delivered",
    "DropRequest",
    "DropResponse",
    "EmbeddedBroker",
    "EmbeddedCluster",
    "EmbeddedProxy",
    "Fail",
    "FakeBroker",
    "Fault",
    "JarsUnavailable",
    "JavaNotFound",
    "NotDrained",
    "RocketMQContainer",
    "Sent",
    "Verdict",
    "attempt",
    "context",
    "judge",
    "received",
    "run_until_drained",
]

_HOMES = {
    "orderly.listening.samples": ("attempt", "context", "received"),
    "orderly.testing.container": ("ContainerUnavailable", "RocketMQContainer"),
    "orderly.testing.drained": ("NotDrained", "run_until_drained"),
    "orderly.testing.embedded": ("EmbeddedBroker", "EmbeddedCluster"),
    "orderly.testing.fake.broker": ("FakeBroker",),
    "orderly.testing.fake.faults": (
        "Cut",
        "Delay",
        "DropRequest",
        "DropResponse",
        "Fail",
        "Fault",
    ),
    "orderly.testing.jars": ("JarsUnavailable",),
    "orderly.testing.java": ("JavaNotFound",),
    "orderly.testing.oracle": ("Delivered", "Sent", "Verdict", "judge"),
    "orderly.testing.proxy": ("EmbeddedProxy",),
    "orderly.testing.readiness": ("BrokerStartFailed",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            globals()[name] = value = getattr(import_module(home), name)
            return value
    raise AttributeError(f"module 'orderly.testing' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
