"""Planning a write, on the driver: everything that can be refused before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from orderly.client import Client
from orderly.log import get_logger
from orderly.namespace import wrap
from orderly.producer.topics import Topics
from orderly.selectors import Layout
from orderly.spark.sink.options import LOOSE, WriteOptions
from orderly.spark.sink.plan import Plan
from orderly.spark.sink.roles import assign

_log = get_logger("orderly.spark")


def make_plan(options: WriteOptions, types: Mapping[str, str]) -> Plan:
    """Find out what all tasks need to know.

    Args:
        options: of the write.
        types: of the rows' columns, by name, as Spark writes them.

    Raises:
        ConfigError: columns that do not fit, or no name server is named.
        TopicNotFound, RouteError, NameServerUnavailable: the topic cannot be sent to.
        LayoutChanged: its queues are not those of the pin given.
    """
    roles = assign(options, types)
    with options.access.client() as client:
        topic = wrap(client.config.namespace, options.topic)
        layout = _pinned(client, topic, options.layout)
    return Plan(options.access, topic, layout, options.selector, roles, options.max_batch_bytes)


def _pinned(client: Client, topic: str, layout: str) -> str:
    """The layout that all tasks send by: keys of two tasks must not count different queues."""
    queues = Topics(client.routes, layout, _log).queues(topic, ordered=True)
    if layout == LOOSE:
        return LOOSE
    brokers = groupby(queue.broker_name for queue in queues)
    return str(Layout(tuple((name, len(list(same))) for name, same in brokers)))
