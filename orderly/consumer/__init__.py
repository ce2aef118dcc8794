"""SHELL: the ordered consumer; the rules they follow are in `orderly.ordering`."""

from orderly.consumer.consumer import OrderlyConsumer
from orderly.consumer.hooks import Consumed, ConsumerHooks
from orderly.ordering.context import ConsumeContext, Handler
from orderly.ordering.results import ConsumeResult

__all__ = [
    "ConsumeContext",
    "ConsumeResult",
    "Consumed",
    "ConsumerHooks",
    "Handler",
    "OrderlyConsumer",
]
