"""Alerts on messages: lost, late, piling up, and on offsets and queues that look wrong."""

from __future__ import annotations

from mixin import thresholds as at
from mixin.alert import GROUP, Alert, in_state

DELIVERY = (
    Alert(
        "OrderlyMessagesLost",
        "critical",
        f"sum without (state) ({in_state('LOST')})"
        " or sum without (topic) (increase(orderly_topic_lost_messages_total[15m])) > 0",
        "0s",
        "1h",
        f"{GROUP} has lost messages",
        "The broker deleted messages by age before the group consumed them: the committed offset"
        " was below the oldest message stored.",
    ),
    Alert(
        "OrderlyRetentionNear",
        "critical",
        f"{at.RETENTION_SHARE} * orderly_group_retention_eta_seconds"
        " < orderly_group_head_age_seconds",
        "5m",
        "5m",
        f"{GROUP} is about to lose messages",
        "The broker will soon delete the group's oldest unfinished message. The time left is a"
        " third of that message's age, or less.",
    ),
    Alert(
        "OrderlyHeadTooOld",
        "warning",
        f"orderly_group_head_age_seconds > {at.HEAD_AGE}",
        "5m",
        "5m",
        f"{GROUP}: a message has waited for {{{{ $value | humanizeDuration }}}}",
        "The oldest unfinished message was stored that long ago, by the broker's clock.",
    ),
    Alert(
        "OrderlyDrainTooSlow",
        "warning",
        f"orderly_group_drain_eta_seconds > {at.DRAIN_ETA}"
        f" and orderly_group_head_age_seconds > {at.DRAIN_HEAD_AGE}",
        "30m",
        "10m",
        f"{GROUP}: its slowest queue needs {{{{ $value | humanizeDuration }}}} for its backlog",
        "This is the backlog divided by the present rate (out minus in). +Inf means never at this"
        " rate. A group has caught up when its slowest queue has.",
    ),
    Alert(
        "OrderlyBacklogGrowing",
        "warning",
        in_state("GROWING"),
        "15m",
        "5m",
        f"{GROUP}: the backlog of {{{{ $value }}}} queue(s) only grows",
        "The backlog did not once get smaller in the window: more comes in than is consumed.",
    ),
    Alert(
        "OrderlyBacklogStalled",
        "critical",
        in_state("STALL"),
        "5m",
        "5m",
        f"{GROUP}: {{{{ $value }}}} queue(s) with a backlog do not move",
        "There is a backlog, and nothing was committed or finished in the window.",
    ),
)

OFFSETS = (
    Alert(
        "OrderlyOffsetAhead",
        "warning",
        in_state("AHEAD"),
        "5m",
        "5m",
        f"{GROUP}: {{{{ $value }}}} queue(s) are committed beyond their end",
        "The committed offset is above the maximum: the log was truncated, or the topic was created"
        " again without proof. New messages are not consumed until the end reaches the offset.",
    ),
    Alert(
        "OrderlyTopicRecreated",
        "warning",
        in_state("RECREATED"),
        "0s",
        "15m",
        f"{GROUP}: the topic of {{{{ $value }}}} queue(s) was deleted and created again",
        "Store times prove it. The group's offsets belong to the former topic. Members of this"
        " library that had the queues begin at the first message. Other groups must be reset.",
    ),
    Alert(
        "OrderlyOffsetRewound",
        "warning",
        in_state("REWIND"),
        "0s",
        "15m",
        f"{GROUP}: the committed offset of {{{{ $value }}}} queue(s) went back",
        "Messages are consumed again from there: after a reset, or after a broker that lost its"
        " last offsets.",
    ),
    Alert(
        "OrderlyQueueSkew",
        "warning",
        f"orderly_topic_skew_ratio > {at.SKEW_RATIO} and orderly_topic_in_rate > {at.SKEW_RATE}",
        "10m",
        "10m",
        "Topic {{ $labels.topic }}: its busiest queue gets {{ $value | humanize }} times the mean",
        "A few keys, or a selector that spreads badly, fill one queue. Group {{ $labels.group }}"
        " will finish it last.",
    ),
)
