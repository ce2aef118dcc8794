"""Waiting for what brokers have stored, but do not show yet.

A send's reply comes before the message can be pulled or counted: some milliseconds, and longer on a
busy machine. A broker shows messages in the order in which it stored them, whatever their queues
are: where a marker shows, all that was stored before it does.
"""

import time

from orderly import Client
from orderly.protocol.frame import request
from orderly.protocol.headers import SendMessage, to_ext
from tests.support.waiting import eventually

_MARKERS = "tests-markers"


def await_visible(client):
    """Wait until all that the client's brokers have stored by now can be seen."""
    if client.admin.create_topic(_MARKERS, 1, order=False):
        eventually(lambda: _MARKERS in client.admin.topics())
    for queue in client.routes.get(_MARKERS).write_queues():
        position = client.brokers.send_now(queue, _marker(queue)).queue_offset
        eventually(lambda q=queue, p=position: client.brokers.max_offset(q) > p)


def _marker(queue):
    header = SendMessage(
        producer_group="tests",
        topic=queue.topic,
        queue_id=queue.queue_id,
        born_timestamp=int(time.time() * 1000),
        properties="",
    )
    return request(header.code, to_ext(header), b"marker")


def await_visible_at(namesrv):
    """The same, for who has no client."""
    with Client(namesrv=namesrv) as client:
        await_visible(client)
