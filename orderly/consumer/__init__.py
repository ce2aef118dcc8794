"""SHELL: the ordered consumer. One loop a file; the rules they follow are in `orderly.ordering`."""

from orderly.consumer.consumer import OrderlyConsumer
from orderly.consumer.context import ConsumeContext, Handler
from orderly.ordering.results import ConsumeResult

__all__ = ["ConsumeContext", "ConsumeResult", "Handler", "OrderlyConsumer"]
