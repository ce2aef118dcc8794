"""The commands of `orderly`, in the order in which a newcomer meets them.

A command is the attribute of its module that has its name; the module is imported when the
command is called.
"""

from __future__ import annotations

COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("orderly.cli.demo", "Real flights through a real broker, and a verdict on the order."),
    "run": ("orderly.cli.run", "Your consumers, until SIGTERM or Ctrl-C; probes."),
    "broker": ("orderly.cli.broker", "A local RocketMQ broker: start, stop, status, logs."),
    "backlog": ("orderly.cli.backlog.group", "How far behind groups are, and why; a checker."),
    "skew": ("orderly.cli.skew", "How unevenly messages flow: queues, keys, what-if."),
    "audit": ("orderly.cli.audit", "Do all producers place keys alike? Is a key's order at risk?"),
    "locks": ("orderly.cli.locks", "Who holds which queue of a group."),
    "exporter": ("orderly.cli.exporter", "Metrics, JSON and a page about backlogs, over HTTP."),
    "offsets": ("orderly.cli.offsets", "A group's offsets: show them, set them."),
    "parked": ("orderly.cli.parked", "Keys set aside: list, look, add, release, export."),
    "dlq": ("orderly.cli.dead_letters", "A group's dead letters: list them, send them again."),
    "spark": ("orderly.cli.spark.group", "Jobs over whole topics: order audit, replay."),
    "topic": ("orderly.cli.topic", "Create topics, list them, show where their queues live."),
    "send": ("orderly.cli.send", "Send messages in order, by sharding key."),
    "bench": ("orderly.cli.bench", "How fast your cluster goes, with this library."),
    "tail": ("orderly.cli.tail", "Read a topic without joining a group."),
    "doctor": ("orderly.cli.doctor", "What is wrong here, at the cluster, with a consumer."),
    "context": ("orderly.cli.context", "Named settings: list them, choose, show what holds."),
    "completion": ("orderly.cli.completion", "Completion for bash, zsh or fish."),
}
