"""For users' tests and trials: a real local broker, an order oracle, a pytest plugin."""

from orderly.testing.embedded import BrokerStartFailed, EmbeddedBroker
from orderly.testing.jars import JarsUnavailable
from orderly.testing.java import JavaNotFound
from orderly.testing.oracle import Delivered, Sent, Verdict, judge

__all__ = [
    "BrokerStartFailed",
    "Delivered",
    "EmbeddedBroker",
    "JarsUnavailable",
    "JavaNotFound",
    "Sent",
    "Verdict",
    "judge",
]
