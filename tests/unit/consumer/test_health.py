"""What a consumer says of its health, as JSON."""

import json

from orderly.consumer.health import Health, QueueHealth
from orderly.model import MessageQueue

QUEUE = QueueHealth(
    queue=MessageQueue("orders", "broker-a", 3),
    why="suspended",
    seconds=1.5,
    offset=None,
    next_offset=12,
    cached_messages=2,
    cached_bytes=100,
    parked_keys=2,
)


def test_the_json_says_all_of_it():
    health = Health(True, False, "running", (QUEUE,), ("no queue is assigned",))
    assert json.loads(health.to_json()) == {
        "live": True,
        "ready": False,
        "state": "running",
        "queues": [
            {
                "queue": {"topic": "orders", "broker_name": "broker-a", "queue_id": 3},
                "why": "suspended",
                "seconds": 1.5,
                "offset": None,
                "next_offset": 12,
                "cached_messages": 2,
                "cached_bytes": 100,
                "parked_keys": 2,
                "paused_keys": 0,
            }
        ],
        "reasons": ["no queue is assigned"],
    }
