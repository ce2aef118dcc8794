"""The dashboard of all groups, the brokers, and the scan itself."""

from __future__ import annotations

from mixin import thresholds as at
from mixin.panels import THIRD, WHOLE, Dashboard, Panel, by_state, grown, of_broker, of_group

NAMED = "{{group}}"
STATE = "{{state}}"
BROKER = "{{broker}}"

# 0 only where states are known: without a scan there is no number.
TROUBLED = (
    'count(max by (cluster, group) (orderly_group_state{%(G)s,state!~"OK|NEW|NOT_APPLICABLE"}))'
    " or 0 * count(orderly_group_state{%(G)s})"
)

OVERVIEW = (
    Panel("Backlog", "stat", (("messages", f"sum({of_group('backlog_messages')})"),), width=3),
    Panel(
        "Oldest message",
        "stat",
        (("age", f"max({of_group('head_age_seconds')})"),),
        "s",
        3,
        at.HEAD_AGE,
        "That no group has finished, since it was stored",
    ),
    Panel(
        "Groups in trouble",
        "stat",
        (("groups", TROUBLED),),
        width=3,
        red_above=0,
        about="Groups whose worst queue is neither OK nor new to the group",
    ),
    Panel(
        "Lost, 24 h",
        "stat",
        (("messages", f"sum({grown('topic_lost_messages_total', '24h')})"),),
        width=3,
        red_above=0,
    ),
    Panel(
        "Parked keys", "stat", (("keys", f"sum({of_group('parked_keys')})"),), width=3, red_above=0
    ),
    Panel(
        "Dead letters",
        "stat",
        (("messages", f"sum({of_group('dead_letters')})"),),
        width=3,
        red_above=0,
    ),
    Panel(
        "Brokers away",
        "stat",
        (("brokers", f"sum(1 - {of_broker('up')})"),),
        width=3,
        red_above=0,
    ),
    Panel(
        "Age of the scan",
        "stat",
        (("age", "min(orderly_scan_age_seconds)"),),
        "s",
        3,
        at.SCAN_AGE,
        "Everything here is as old as this",
    ),
)

ALL_GROUPS = (
    Panel(
        "Groups",
        "table",
        (
            ("state", "max by (cluster, group, state) (orderly_group_state{%(G)s})"),
            ("backlog", of_group("backlog_messages")),
            ("oldest, s", of_group("head_age_seconds")),
            ("drained in, s", of_group("drain_eta_seconds")),
            ("retention left, s", of_group("retention_eta_seconds")),
            ("members", of_group("members")),
            ("idle", of_group("idle_members")),
            ("parked keys", of_group("parked_keys")),
            ("dead letters", of_group("dead_letters")),
            ("findings", of_group("findings")),
        ),
        width=WHOLE,
        about="Unknown values are empty. A group is drained when its slowest queue is.",
    ),
    Panel("Backlog", "timeseries", ((NAMED, f"topk(20, {of_group('backlog_messages')})"),)),
    Panel(
        "Oldest message",
        "timeseries",
        ((NAMED, f"topk(20, {of_group('head_age_seconds')})"),),
        "s",
        red_above=at.HEAD_AGE,
    ),
    Panel(
        "Queues not OK, by state",
        "timeseries",
        ((STATE, by_state("group_queues", '%(G)s,state!="OK"')),),
        stacked=True,
    ),
    Panel(
        "Drained in",
        "timeseries",
        ((NAMED, f"topk(20, {of_group('drain_eta_seconds')} < Inf)"),),
        "s",
        red_above=at.DRAIN_ETA,
        about="Of the slowest queue; groups that never catch up are left out",
    ),
)

BROKERS = (
    Panel(
        "Brokers that answer",
        "timeseries",
        ((BROKER, of_broker("up")),),
        width=THIRD,
    ),
    Panel(
        "Broker's clock less the exporter's",
        "timeseries",
        ((BROKER, of_broker("clock_offset_seconds")),),
        "s",
        THIRD,
    ),
    Panel(
        "Time to answer a scan",
        "timeseries",
        ((BROKER, of_broker("scan_seconds")),),
        "s",
        THIRD,
    ),
    Panel(
        "Scan",
        "timeseries",
        (
            ("takes", "max by (instance) (orderly_scan_duration_seconds)"),
            ("is old", "max by (instance) (orderly_scan_age_seconds)"),
        ),
        "s",
        THIRD,
        at.SCAN_AGE,
    ),
    Panel(
        "Requests by code",
        "timeseries",
        (("{{code}}", "sum by (code) (rate(orderly_scan_requests_total[5m]))"),),
        "reqps",
        THIRD,
        stacked=True,
    ),
    Panel(
        "Failed scans, and series",
        "timeseries",
        (
            ("failed in 5 minutes", "sum(increase(orderly_scan_failures_total[5m]))"),
            ("series", "max by (instance) (orderly_series)"),
        ),
        width=THIRD,
    ),
)

CLUSTERS = Dashboard(
    "orderly-clusters",
    "Orderly: groups and brokers",
    ("cluster", "group"),
    (("Overview", OVERVIEW), ("Groups", ALL_GROUPS), ("Brokers and the scan itself", BROKERS)),
)
