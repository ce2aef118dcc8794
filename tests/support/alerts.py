"""Alerts and dashboards, docker/monitoring, as tests import them, and what each alert fires at."""

import sys
from dataclasses import dataclass
from pathlib import Path

# --- mixin ----------------------------------------------------------------------------------------
# The source of alerts and dashboards, docker/monitoring, as the tests import it.


FOLDER = Path(__file__).parents[2] / "docker" / "monitoring"

sys.path.append(str(FOLDER))  # a folder beside what is rendered from it, not an installed package

import render  # noqa: E402
from mixin.rules import GROUPS  # noqa: E402

rendered = render.rendered

ALERTS = {alert.name: alert for alerts in GROUPS.values() for alert in alerts}


# --- alert cases ----------------------------------------------------------------------------------
# What each alert must and must not fire at: made-up series, minute by minute, and what is seen.
#
# Series are in promtool's notation ("3x9": ten minutes of 3; "0+2x9": 0, 2, … 18; "stale": it
# vanished). How long an alert waits and is kept is repeated here on purpose: these are promises.


C = 'cluster="c"'
G = f'{C},group="pay"'
T = f'{G},topic="orders"'
GROUP = {"cluster": "c", "group": "pay"}


@dataclass(frozen=True, slots=True)
class Case:
    """One history.

    Attributes:
        kind: "fires", "quiet", "resolves", "absent", or "no false alarm".
        series: values by name.
        seen: by minute what the alert's text gives as its value; None: it does not fire.
    """

    kind: str
    series: dict
    seen: dict


def cases(fires, quiet, resolves, *more, absent=None):
    """The four that every alert has, and others; `absent`: what is seen where there is nothing."""
    kinds = ("fires", "quiet", "resolves")
    first = [Case(k, *case) for k, case in zip(kinds, (fires, quiet, resolves), strict=True)]
    nothing = Case("absent", {}, absent or {60: None})
    return (*first, nothing, *(Case("no false alarm", *case) for case in more))


def queues(state):
    return f'orderly_group_queues{{{G},state="{state}"}}'


def of_state(state, wait, keep, *more):
    """An alert on queues in a state: waits, goes on for `keep` minutes, ends as the series does."""
    there, end = queues(state), 31 + keep
    resolves = {30: "3", end - 1: "3", end: None}
    first = {wait - 1: None} if wait else {}
    return (
        *cases(
            ({there: "3x90"}, first | {wait: "3", 90: "3"}),
            ({queues("OK"): "16x90", there: "0x90"}, {30: None, 90: None}),
            ({there: "3x30 0x60"}, resolves),
            *([({there: f"3x{wait - 1} 0 " * 5}, dict.fromkeys(range(1, 5 * wait)))] * bool(wait)),
            *more,
        ),
        Case("fires", {there: "1x60"}, {60: "1"}),
        Case("resolves", {there: "3x30 stale"}, resolves),
    )


def gauge(name, bad, good, shown, wait, keep, *more, labels=G, other=()):
    """An alert on one figure: `bad` fires as `shown`, `good` does not; `other` series are there."""
    there, end = f"{name}{{{labels}}}", 91 + keep
    beside = dict(other)
    return cases(
        ({there: f"{bad}x90"} | beside, {wait - 1: None, wait: shown}),
        ({there: f"{good}x90"} | beside, {90: None}),
        (
            {there: f"{bad}x90 {good}x60"} | beside,
            {90: shown, end - 1: shown, end: None},
        ),
        *more,
    )


HEAD = f"orderly_group_head_age_seconds{{{G}}}"
DRAIN = f"orderly_group_drain_eta_seconds{{{G}}}"
LEFT = f"orderly_group_retention_eta_seconds{{{G}}}"
CHANGES = f"orderly_group_owner_changes_total{{{G}}}"
DEAD = f"orderly_group_dead_letters_total{{{G}}}"
LOST = f"orderly_topic_lost_messages_total{{{T}}}"
RATIO = f"orderly_topic_skew_ratio{{{T}}}"
RATE = f"orderly_topic_in_rate{{{T}}}"
UP = 'up{job="orderly",instance="e:9788"}'
AT = 'job="orderly",instance="e:9788"'
AGE = f"orderly_scan_age_seconds{{{AT}}}"
FAILED = f"orderly_scan_failures_total{{{AT}}}"
SUCCESS = f"orderly_scan_last_success_timestamp_seconds{{{AT}}}"
BROKER = f'orderly_broker_up{{{C},broker="broker-a"}}'
BROKER_B = f'orderly_broker_up{{{C},broker="broker-b"}}'
NEVER = "Inf " * 91
EVEN = {queues("OK"): "16x300"}

CASES = {
    # --- delivery
    "OrderlyMessagesLost": (
        *cases(
            ({queues("LOST"): "1x20"}, {0: "", 20: ""}),
            ({LOST: "70x90", queues("OK"): "16x90"}, {0: None, 30: None, 90: None}),
            ({queues("LOST"): "0 2x9 0x90"}, {0: None, 1: "", 70: "", 71: None}),
            # Never lost again, but the exporter was restarted and counts from 0.
            ({LOST: "70x30 0x60"}, {90: None}),
        ),
        # The consumer went on at once: no scan saw the state, the total grew all the same.
        Case("fires", {LOST: "70x10 71x90"}, {10: None, 11: "", 90: None}),
    ),
    "OrderlyRetentionNear": cases(
        # 72 h kept, nothing consumed: the alarm comes 18 h before the loss.
        ({HEAD: "0+3600x72", LEFT: "259200-3600x72"}, {54: None, 59: None, 60: "", 70: ""}),
        ({HEAD: "3600x90", LEFT: "255600x90"}, {90: None}),
        ({HEAD: "250000x20 0x60", LEFT: "9200x20 259200x60"}, {20: "", 25: "", 26: None}),
        # A broker that keeps four hours: little time is left always, but nothing is late.
        ({HEAD: "60x90", LEFT: "14340x90"}, {90: None}),
        # Idle: the head has no age, and a broker may even keep next to nothing.
        ({HEAD: "0x90", LEFT: "60x90"}, {90: None}),
        ({LEFT: "60x90"}, {90: None}),  # how old the head is, is not known
    ),
    "OrderlyHeadTooOld": (
        *gauge(
            "orderly_group_head_age_seconds",
            901,
            900,
            "15m 1s",
            5,
            5,
            # A slow topic: one message an hour, consumed within minutes.
            ({HEAD: "0 60 120 0x56 " * 4}, dict.fromkeys(range(0, 240, 7))),
        ),
        Case("resolves", {HEAD: "1200x30 stale"}, {35: "20m 0s", 36: None}),
    ),
    "OrderlyDrainTooSlow": (
        *cases(
            ({DRAIN: "14401x60", HEAD: "301x60"}, {29: None, 30: "4h 0m 1s"}),
            ({DRAIN: "14400x60", HEAD: "9999x60"}, {60: None}),
            (
                {DRAIN: "18000x60 60x60", HEAD: "400x120"},
                {60: "5h 0m 0s", 70: "5h 0m 0s", 71: None},
            ),
            ({DRAIN: "14401x60", HEAD: "300x60"}, {60: None}),
            # A busy stream that is kept up with: what comes in goes out, so the few messages
            # under way are "never" drained.
            ({DRAIN: NEVER, HEAD: "2x90"}, {90: None}),
            ({DRAIN: NEVER, HEAD: "0x90"}, {90: None}),
            ({DRAIN: NEVER}, {90: None}),
        ),
        Case("fires", {DRAIN: NEVER, HEAD: "4000x60"}, {29: None, 30: "+Inf"}),
    ),
    "OrderlyBacklogGrowing": of_state("GROWING", 15, 5),
    "OrderlyBacklogStalled": of_state("STALL", 5, 5),
    # --- consumers
    "OrderlyGroupOffline": of_state("OFFLINE", 5, 5),
    "OrderlyQueueOrphaned": of_state("ORPHAN", 2, 5),
    "OrderlyQueueUnlocked": of_state("UNLOCKED", 2, 5),
    "OrderlyHandlerBlocked": of_state("BLOCKED", 2, 5),
    "OrderlyHeadSuspended": of_state("SUSPENDED", 10, 5),
    "OrderlyRebalanceStorm": cases(
        # 16 queues: 48 changes in 10 minutes are allowed.
        ({CHANGES: "0+6x60"} | EVEN, {23: None, 24: "", 60: ""}),
        ({CHANGES: "0+4x60"} | EVEN, {60: None}),
        ({CHANGES: "0+6x30 180x60"} | EVEN, {30: "", 36: "", 37: None}),
        # A deployment of ten minutes in which every member is restarted, and queues move about.
        ({CHANGES: "0x20 8+8x10 96x60"} | EVEN, dict.fromkeys(range(91))),
        # Queues in several states are counted together.
        (
            {CHANGES: "0+6x60", queues("OK"): "15x60", queues("STALL"): "15x60"},
            {60: None},
        ),
    ),
    "OrderlyGroupFindings": gauge("orderly_group_findings", 1, 0, "1", 30, 10),
    # --- set aside
    "OrderlyKeysParked": gauge("orderly_group_parked_keys", 1, 0, "1", 5, 5),
    "OrderlyParkedExpiring": gauge(
        "orderly_group_parked_oldest_age_seconds",
        172801,
        172800,
        "2d 0h 0m 1s",
        10,
        10,
        # Members store parked messages again at 36 of 72 hours.
        ({f"orderly_group_parked_oldest_age_seconds{{{G}}}": "0+3600x36 0x90"}, {36: None}),
    ),
    "OrderlyDeadLetters": gauge("orderly_group_dead_letters", 1, 0, "1", 5, 5),
    "OrderlyDeadLettersFlood": (
        *cases(
            ({DEAD: "500x30 511x60"} | EVEN, {30: None, 31: "11"}),
            ({DEAD: "500x30 510x60"} | EVEN, dict.fromkeys(range(91))),
            ({DEAD: "500x30 540x60"} | EVEN, {44: "40", 60: "40", 61: None}),
            # Prometheus is new, or comes back after long: old dead letters are no flood.
            ({DEAD: "500x90", queues("OK"): "16x90"}, dict.fromkeys(range(91))),
            ({DEAD: "_x59 500x90", queues("OK"): "_x59 16x90"}, dict.fromkeys(range(150))),
            # The exporter was away for half an hour.
            (
                {DEAD: "500x60 _x30 500x60", queues("OK"): "16x60 _x30 16x60"},
                dict.fromkeys(range(150)),
            ),
        ),
        # A group's first dead letters: no counter before, the group was known.
        Case("fires", {DEAD: "_x60 11x60"} | EVEN, {59: None, 60: "11", 89: "11", 90: None}),
        Case("quiet", {DEAD: "_x60 10x60"} | EVEN, {60: None, 70: None}),
    ),
    # --- offsets
    "OrderlyOffsetAhead": of_state("AHEAD", 5, 5),
    "OrderlyTopicRecreated": of_state("RECREATED", 0, 15),
    "OrderlyOffsetRewound": of_state("REWIND", 0, 15),
    "OrderlyQueueSkew": cases(
        ({RATIO: "4x60", RATE: "11x60"}, {9: None, 10: "4"}),
        ({RATIO: "3x60", RATE: "100x60"}, {60: None}),
        ({RATIO: "4x60 1.2x60", RATE: "100x120"}, {60: "4", 70: "4", 71: None}),
        # A slow topic: one message in the window is all of one queue's, and no skew.
        ({RATIO: "16x60", RATE: "0.02x60"}, {60: None}),
        ({RATIO: "16x60", RATE: "10x60"}, {60: None}),
        ({RATIO: "16x60"}, {60: None}),
    ),
    # --- watching
    "OrderlyExporterDown": cases(
        ({UP: "1x10 0x60"}, {10: None, 13: None, 14: ""}),
        ({UP: "1x60"}, {0: None, 60: None}),
        ({UP: "0x20 1x60"}, {20: "", 25: "", 26: None}),
        # A restart of two minutes.
        ({UP: "1x10 0 0 1x60"}, dict.fromkeys(range(70))),
        # Of another job; ours is there.
        ({UP: "1x60", 'up{job="node",instance="n:9100"}': "0x60"}, {60: None}),
        absent={2: None, 3: "", 60: ""},
    ),
    "OrderlyScanStale": (
        *cases(
            ({AGE: "15x10 181x60"}, {12: None, 13: "", 60: ""}),
            ({AGE: "180x60", FAILED: "9x60", SUCCESS: "1700000000x60"}, {60: None}),
            ({AGE: "400x20 15x60"}, {20: "", 25: "", 26: None}),
            # It has just started: no scan has ended, none has failed.
            ({FAILED: "0x20", SUCCESS: "0x20"}, {20: None}),
            # One scan in four fails.
            ({AGE: "15 15 75 15 " * 15, FAILED: "0+1x60", SUCCESS: "1700000000x60"}, {60: None}),
        ),
        # The cluster was away from the start.
        Case("fires", {FAILED: "1+1x60"}, {1: None, 2: ""}),
        Case("fires", {FAILED: "1+1x60", SUCCESS: "0x60"}, {1: None, 2: ""}),
    ),
    "OrderlyBrokerUnreachable": cases(
        ({BROKER: "1x9 0x60", BROKER_B: "1x70"}, {11: None, 12: ""}),
        ({BROKER: "1x60"}, {60: None}),
        ({BROKER: "0x20 1x60"}, {20: "", 25: "", 26: None}),
        ({BROKER: "1x5 0 0 1x5 0 0 1x60"}, dict.fromkeys(range(60))),
        ({BROKER: "1x20 stale"}, {60: None}),  # taken out of the cluster
    ),
    "OrderlyBacklogUnknown": (
        *of_state(
            "UNKNOWN",
            10,
            5,
            # A broker is away: that is told once, by its own alert, not by every group.
            ({queues("UNKNOWN"): "8x60", BROKER: "0x60", BROKER_B: "1x60"}, {60: None}),
        ),
        Case("fires", {queues("UNKNOWN"): "8x60", BROKER: "1x60", BROKER_B: "1x60"}, {60: "8"}),
    ),
    "OrderlyBrokerClockOff": (
        *gauge(
            "orderly_broker_clock_offset_seconds",
            31,
            30,
            "31s",
            15,
            15,
            labels=f'{C},broker="broker-a"',
        ),
        Case(
            "fires",
            {f'orderly_broker_clock_offset_seconds{{{C},broker="broker-a"}}': "-90x60"},
            {14: None, 15: "1m 30s"},
        ),
    ),
}

OF_BROKER = {"cluster": "c", "broker": "broker-a"}
OF_EXPORTER = {"job": "orderly", "instance": "e:9788"}
OF_STATE = {
    "OrderlyBacklogGrowing": "GROWING",
    "OrderlyBacklogStalled": "STALL",
    "OrderlyGroupOffline": "OFFLINE",
    "OrderlyQueueOrphaned": "ORPHAN",
    "OrderlyQueueUnlocked": "UNLOCKED",
    "OrderlyHandlerBlocked": "BLOCKED",
    "OrderlyHeadSuspended": "SUSPENDED",
    "OrderlyOffsetAhead": "AHEAD",
    "OrderlyTopicRecreated": "RECREATED",
    "OrderlyOffsetRewound": "REWIND",
    "OrderlyBacklogUnknown": "UNKNOWN",
}
LABELS = {name: GROUP | {"state": state} for name, state in OF_STATE.items()} | {
    "OrderlyQueueSkew": GROUP | {"topic": "orders"},
    "OrderlyExporterDown": OF_EXPORTER,
    "OrderlyScanStale": OF_EXPORTER,
    "OrderlyBrokerUnreachable": OF_BROKER,
    "OrderlyBrokerClockOff": OF_BROKER,
}


def labels(name, case):
    """The labels an alert fires with."""
    if name == "OrderlyExporterDown" and case.kind == "absent":
        return {"job": "orderly"}  # no target, no instance
    return LABELS.get(name, GROUP)
