"""docs/how-to/telemetry.md: a handler, and what to call when a queue is lost."""

from orderly import Ack
from tests.docs.standins import Recorder

TOPICS = {"orders": 4}
alarm = Recorder()


def handle(messages, context):
    return Ack()
