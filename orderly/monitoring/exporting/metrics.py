"""The table of metrics: name, kind, help, and how each is read. Pure.

Labels are identity only (cluster, group, topic, broker, queue); a state and an owner are labels of
metrics of their own. A reading of None is "not known" and makes no series.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import Any, Generic, TypeVar

from orderly.monitoring.backlog.reading import BrokerReading
from orderly.monitoring.backlog.snapshot import QueueStatus, Sums
from orderly.monitoring.exporting.told import GroupTold, Itself, TopicTold

Subject = TypeVar("Subject")
Number = int | float


class Kind(StrEnum):
    """As the exposition formats call them; INFO is a gauge where a format does not know it."""

    GAUGE = "gauge"
    COUNTER = "counter"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Metric(Generic[Subject]):
    """One metric with one series for each subject.

    Attributes:
        name: as the series are called.
        kind: what the number does.
        help: one line.
        read: the number; None: not known.
    """

    name: str
    kind: Kind
    help: str
    read: Callable[[Subject], Number | None]


@dataclass(frozen=True, slots=True)
class Labelled(Generic[Subject]):
    """One metric with a further label, and any number of series for each subject.

    Attributes:
        name, kind, help: as of `Metric`.
        label: its name.
        read: pairs of the label's value and the number.
    """

    name: str
    kind: Kind
    help: str
    label: str
    read: Callable[[Subject], Iterable[tuple[str, Number]]]


Level = tuple[Metric[Subject] | Labelled[Subject], ...]


def _states(sums: Sums) -> Iterable[tuple[str, Number]]:
    return sums.states.items()


def _owner(row: QueueStatus) -> Iterable[tuple[str, Number]]:
    return () if row.owner is None else ((row.owner, 1),)


def _parked_keys(row: QueueStatus) -> int | None:
    return None if row.parked is None else len(row.parked)


def _count(names: tuple[str, ...] | None) -> int | None:
    return None if names is None else len(names)


GAUGE, COUNTER, INFO = Kind

# fmt: off
QUEUE: Level[QueueStatus] = (
    Metric("orderly_queue_backlog_messages", GAUGE, "Messages not finished.",
           attrgetter("backlog")),
    Metric("orderly_queue_head_age_seconds", GAUGE,
           "Since the oldest message not finished was stored.", attrgetter("head_age")),
    Metric("orderly_queue_committed_offset", GAUGE, "Next to consume.", attrgetter("committed")),
    Metric("orderly_queue_max_offset", GAUGE, "Next to be stored.", attrgetter("maximum")),
    Metric("orderly_queue_min_offset", GAUGE, "Oldest stored.", attrgetter("minimum")),
    Metric("orderly_queue_lost_messages", GAUGE,
           "Messages between the committed offset and the oldest stored: deleted unconsumed.",
           attrgetter("lost")),
    Labelled("orderly_queue_state", GAUGE, "1 for the state the queue is in.", "state",
             lambda row: ((row.state, 1),)),
    Metric("orderly_queue_drain_eta_seconds", GAUGE,
           "Until the backlog is worked off; +Inf: at this pace never.", attrgetter("drain_eta")),
    Metric("orderly_queue_retention_eta_seconds", GAUGE,
           "Until the broker deletes what is not consumed.", attrgetter("retention_eta")),
    Metric("orderly_queue_in_rate", GAUGE, "Messages stored a second.", attrgetter("in_rate")),
    Metric("orderly_queue_out_rate", GAUGE, "Messages committed a second.",
           attrgetter("out_rate")),
    Metric("orderly_queue_parked_keys", GAUGE, "Keys set aside.", _parked_keys),
    Metric("orderly_queue_parked_messages", GAUGE, "Messages behind keys set aside.",
           attrgetter("parked_messages")),
    Labelled("orderly_queue_owner_info", INFO, "The member that has the queue.", "client", _owner),
)

TOPIC: Level[TopicTold] = (
    Metric("orderly_topic_backlog_messages", GAUGE,
           "Messages not finished, in the queues that could be measured.",
           attrgetter("sums.backlog")),
    Metric("orderly_topic_head_age_seconds", GAUGE,
           "Since the oldest message not finished was stored.", attrgetter("sums.head_age")),
    Metric("orderly_topic_in_rate", GAUGE, "Messages stored a second.", attrgetter("sums.in_rate")),
    Metric("orderly_topic_out_rate", GAUGE, "Messages committed a second.",
           attrgetter("sums.out_rate")),
    Metric("orderly_topic_drain_eta_seconds", GAUGE,
           "Until the slowest queue is worked off; +Inf: at this pace never.",
           attrgetter("sums.drain_eta")),
    Metric("orderly_topic_retention_eta_seconds", GAUGE,
           "Until the broker deletes what is not consumed, of the queue it hits first.",
           attrgetter("sums.retention_eta")),
    Labelled("orderly_topic_queues", GAUGE, "Queues in a state.", "state",
             lambda topic: _states(topic.sums)),
    Metric("orderly_topic_skew_ratio", GAUGE,
           "Inflow of the busiest queue over the mean; 1 is even.", attrgetter("skew_ratio")),
    Metric("orderly_topic_lost_messages_total", COUNTER,
           "Messages found deleted before they were consumed.", attrgetter("lost_total")),
)

GROUP: Level[GroupTold] = (
    Metric("orderly_group_backlog_messages", GAUGE,
           "Messages not finished, in the queues that could be measured.",
           attrgetter("status.sums.backlog")),
    Metric("orderly_group_head_age_seconds", GAUGE,
           "Since the oldest message not finished was stored.", attrgetter("status.sums.head_age")),
    Metric("orderly_group_drain_eta_seconds", GAUGE,
           "Until the slowest queue is worked off; +Inf: at this pace never.",
           attrgetter("status.sums.drain_eta")),
    Metric("orderly_group_retention_eta_seconds", GAUGE,
           "Until the broker deletes what is not consumed, of the queue it hits first.",
           attrgetter("status.sums.retention_eta")),
    Labelled("orderly_group_queues", GAUGE, "Queues in a state.", "state",
             lambda group: _states(group.status.sums)),
    Labelled("orderly_group_state", GAUGE, "1 for the worst state of a queue.", "state",
             lambda group: ((group.status.sums.state, 1),)),
    Metric("orderly_group_members", GAUGE, "Members connected.",
           lambda group: _count(group.status.members)),
    Metric("orderly_group_idle_members", GAUGE, "Members known to have no queue.",
           lambda group: _count(group.status.idle)),
    Metric("orderly_group_parked_keys", GAUGE, "Keys set aside.",
           attrgetter("status.sums.parked_keys")),
    Metric("orderly_group_parked_messages", GAUGE, "Messages behind keys set aside.",
           attrgetter("status.sums.parked_messages")),
    Metric("orderly_group_parked_oldest_age_seconds", GAUGE,
           "Since the oldest parked message was stored.", attrgetter("status.sums.parked_age")),
    Metric("orderly_group_dead_letters", GAUGE, "Dead letters stored.",
           lambda group: group.status.dead.messages if group.status.dead else None),
    Metric("orderly_group_dead_letters_total", COUNTER, "Dead letters stored since ever.",
           lambda group: group.status.dead.maximum if group.status.dead else None),
    Metric("orderly_group_dead_letters_oldest_age_seconds", GAUGE,
           "Since the oldest dead letter was stored.", attrgetter("dead_letters_age")),
    Metric("orderly_group_owner_changes_total", COUNTER, "Queues that changed their owner.",
           attrgetter("status.owner_changes")),
    Metric("orderly_group_findings", GAUGE, "Findings about the group as a whole.",
           lambda group: len(group.status.findings)),
)

BROKER: Level[BrokerReading] = (
    Metric("orderly_broker_up", GAUGE, "1 if the broker answered the last scan, else 0.",
           lambda broker: int(broker.error is None)),
    Metric("orderly_broker_clock_offset_seconds", GAUGE, "The broker's clock minus ours.",
           attrgetter("clock_offset")),
    Metric("orderly_broker_scan_seconds", GAUGE, "Until the broker's last answer.",
           attrgetter("seconds")),
)

ITSELF: Level[Itself] = (
    Metric("orderly_scan_duration_seconds", GAUGE, "How long the last scan took.",
           attrgetter("scan_seconds")),
    Labelled("orderly_scan_requests_total", COUNTER, "Requests sent to brokers, by code.", "code",
             lambda itself: ((str(code), sent) for code, sent in itself.requests.items())),
    Metric("orderly_scan_failures_total", COUNTER, "Scans that failed.", attrgetter("failures")),
    Metric("orderly_scan_last_success_timestamp_seconds", GAUGE,
           "When the last scan succeeded, since the epoch.", attrgetter("last_success")),
    Metric("orderly_scan_age_seconds", GAUGE, "Since what is told here was read.",
           attrgetter("age")),
    Metric("orderly_series", GAUGE, "Series beside those of the exporter itself.",
           attrgetter("series")),
)
# fmt: on

LEVELS: Mapping[str, Level[Any]] = {
    "broker": BROKER,
    "group": GROUP,
    "topic": TOPIC,
    "queue": QUEUE,
    "itself": ITSELF,
}
