"""The rate of the real Java client's ordered consumer, in a JVM of its own with default options."""

from benchmarks.lane_backlog import WARM, new_group
from benchmarks.peers import java, launch

compiled = java.compiled


def rate(command, namesrv, topic, count, sleep_ms):
    """Messages per second of one run in a new group, by the JVM's own clock."""
    numbers = (count, WARM, sleep_ms)
    return launch.run([*command, "Consume", namesrv, new_group(), topic, *numbers]).rate
