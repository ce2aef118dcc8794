"""Sending: ordered, batched, awaitable. Shell code around the rules of `ordering.outbox`."""

from orderly.producer.producer import OrderlyProducer

__all__ = ["OrderlyProducer"]
