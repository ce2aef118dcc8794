"""Ordered messages on Apache RocketMQ: the public names."""

from orderly.client import Client
from orderly.config import ClientConfig, ConsumerConfig, ProducerConfig
from orderly.consumer import ConsumeContext, ConsumeResult, OrderlyConsumer
from orderly.errors import OrderlyError
from orderly.model import Message, MessageQueue, ReceivedMessage, SendResult
from orderly.producer import OrderlyProducer

__version__ = "0.1.0"

__all__ = [
    "Client",
    "ClientConfig",
    "ConsumeContext",
    "ConsumeResult",
    "ConsumerConfig",
    "Message",
    "MessageQueue",
    "OrderlyConsumer",
    "OrderlyError",
    "OrderlyProducer",
    "ProducerConfig",
    "ReceivedMessage",
    "SendResult",
    "__version__",
]
