"""Clients of the tests themselves: what a test asks or sends a busy machine may take long over.

Who is tested keeps its own time-outs.
"""

from functools import partial

from orderly import Client, ClientConfig, OrderlyProducer, ProducerConfig

PATIENCE = 30.0  # seconds


def patient_client(namesrv):
    """A client that waits for every answer, also to the lock requests of a test."""
    config = ClientConfig(namesrv=namesrv, request_timeout=PATIENCE, connect_timeout=PATIENCE)
    client = Client(config)
    brokers = client.brokers
    brokers.lock_queues = partial(brokers.lock_queues, timeout=PATIENCE)
    brokers.unlock_queues = partial(brokers.unlock_queues, timeout=PATIENCE)
    return client


def patient_producer(namesrv):
    """A producer whose messages are not sent, and stored, once more because an answer is late."""
    return OrderlyProducer(namesrv=namesrv, config=ProducerConfig(send_timeout=PATIENCE))
