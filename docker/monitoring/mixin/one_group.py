"""The dashboard of one group: its topics and queues, and what holds up ordered consumption."""

from __future__ import annotations

from mixin import thresholds as at
from mixin.panels import (
    THIRD,
    WHOLE,
    Dashboard,
    Panel,
    by_state,
    grown,
    of_group,
    of_queue,
    of_topic,
)

TOPIC = "{{topic}}"
STATE = "{{state}}"
HELD_UP = 'state=~"ORPHAN|UNLOCKED|BLOCKED|SUSPENDED|STALL"'

TOPICS = (
    Panel("Backlog", "timeseries", ((TOPIC, of_topic("backlog_messages")),), stacked=True),
    Panel(
        "Oldest message",
        "timeseries",
        ((TOPIC, of_topic("head_age_seconds")),),
        "s",
        red_above=at.HEAD_AGE,
    ),
    Panel(
        "Messages a second",
        "timeseries",
        (("{{topic}} in", of_topic("in_rate")), ("{{topic}} out", of_topic("out_rate"))),
        "mps",
        about="Stored and committed",
    ),
    Panel(
        "Drained in, and retention left",
        "timeseries",
        (
            ("{{topic}} drained in", f"{of_topic('drain_eta_seconds')} < Inf"),
            ("{{topic}} retention left", of_topic("retention_eta_seconds")),
        ),
        "s",
    ),
    Panel(
        "Busiest queue over the mean",
        "timeseries",
        ((TOPIC, of_topic("skew_ratio")),),
        red_above=at.SKEW_RATIO,
    ),
    Panel(
        "Queues by state",
        "timeseries",
        ((STATE, by_state("topic_queues", "%(T)s")),),
        stacked=True,
    ),
    Panel(
        "Queues",
        "table",
        (
            ("state", of_queue("state", "state")),
            ("backlog", of_queue("backlog_messages")),
            ("oldest, s", of_queue("head_age_seconds")),
            ("in", of_queue("in_rate")),
            ("out", of_queue("out_rate")),
            ("drained in, s", of_queue("drain_eta_seconds")),
            ("retention left, s", of_queue("retention_eta_seconds")),
            ("lost", of_queue("lost_messages")),
            ("first", of_queue("min_offset")),
            ("committed", of_queue("committed_offset")),
            ("end", of_queue("max_offset")),
        ),
        width=WHOLE,
        about="All queues with `--granularity queue`; else those that are not OK",
    ),
)

ORDERED = (
    Panel(
        "Queues that do not go on, by state",
        "timeseries",
        ((STATE, by_state("topic_queues", f"%(T)s,{HELD_UP}")),),
        stacked=True,
        about="BLOCKED: a handler does not return. SUSPENDED: the first message fails each time."
        " UNLOCKED: no member has its lock. ORPHAN: nobody reads the queue. STALL: nothing is"
        " finished.",
    ),
    Panel(
        "Members, and changes of owner",
        "timeseries",
        (
            ("{{group}} members", of_group("members")),
            ("{{group}} without a queue", of_group("idle_members")),
            (
                "{{group}} changes in 10 minutes",
                grown("group_owner_changes_total", "10m"),
            ),
        ),
    ),
    Panel(
        "Parked",
        "timeseries",
        (
            ("{{group}} keys", of_group("parked_keys")),
            ("{{group}} messages", of_group("parked_messages")),
        ),
        width=THIRD,
    ),
    Panel(
        "Dead letters",
        "timeseries",
        (
            ("{{group}} there", of_group("dead_letters")),
            (
                "{{group}} new in 15 minutes",
                grown("group_dead_letters_total", "15m"),
            ),
        ),
        width=THIRD,
    ),
    Panel(
        "Oldest of them",
        "timeseries",
        (
            ("{{group}} parked", of_group("parked_oldest_age_seconds")),
            ("{{group}} dead letter", of_group("dead_letters_oldest_age_seconds")),
        ),
        "s",
        THIRD,
        at.PARKED_AGE,
    ),
    Panel(
        "Owners",
        "table",
        (
            ("owner", of_queue("owner_info", "client")),
            ("parked keys", of_queue("parked_keys")),
            ("parked messages", of_queue("parked_messages")),
        ),
        width=WHOLE,
        about="As the members report it; nobody can read the broker's table of locks",
    ),
)

ONE_GROUP = Dashboard(
    "orderly-group",
    "Orderly: one group",
    ("cluster", "group", "topic"),
    (("Topics and queues", TOPICS), ("Ordered consumption", ORDERED)),
)
