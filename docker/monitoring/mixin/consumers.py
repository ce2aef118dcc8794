"""Alerts on consumers: away, stuck, changing, and what they set aside."""

from __future__ import annotations

from mixin import thresholds as at
from mixin.alert import GROUP, Alert, in_state

CONSUMERS = (
    Alert(
        "OrderlyGroupOffline",
        "critical",
        in_state("OFFLINE"),
        "5m",
        "5m",
        f"{GROUP} is offline and {{{{ $value }}}} queue(s) wait",
        "There is a backlog, and no member of the group is connected to any broker.",
    ),
    Alert(
        "OrderlyQueueOrphaned",
        "critical",
        in_state("ORPHAN"),
        "2m",
        "5m",
        f"{GROUP}: nobody reads {{{{ $value }}}} of its queue(s)",
        "Members are connected, and none of them reads the queue: none has it, or it is forbidden.",
    ),
    Alert(
        "OrderlyQueueUnlocked",
        "warning",
        in_state("UNLOCKED"),
        "2m",
        "5m",
        f"{GROUP}: no member has the broker's lock of {{{{ $value }}}} queue(s)",
        "Without the lock nobody consumes. The queue's member does not get it, or no member has the"
        " queue, or a dead member has it: its lock is free 60 s after the last renewal.",
    ),
    Alert(
        "OrderlyHandlerBlocked",
        "critical",
        in_state("BLOCKED"),
        "2m",
        "5m",
        f"{GROUP}: {{{{ $value }}}} queue(s) wait for a handler that does not return",
        "A handler works on the first message and does not return. Later messages wait.",
    ),
    Alert(
        "OrderlyHeadSuspended",
        "warning",
        in_state("SUSPENDED"),
        "10m",
        "5m",
        f"{GROUP}: {{{{ $value }}}} queue(s) try their first message again and again",
        "The first message fails each time it is tried. Later messages wait.",
    ),
    Alert(
        "OrderlyRebalanceStorm",
        "warning",
        "increase(orderly_group_owner_changes_total[10m])"
        f" > {at.OWNER_CHANGES} * sum without (state) (orderly_group_queues)",
        "15m",
        "5m",
        f"{GROUP}: its queues change hands all the time",
        f"In 10 minutes there were more than {at.OWNER_CHANGES} changes of owner a queue, and not"
        " only during a deployment: members come and go, or their heartbeats do.",
    ),
    Alert(
        "OrderlyGroupFindings",
        "info",
        "orderly_group_findings > 0",
        "30m",
        "10m",
        f"{GROUP}: {{{{ $value }}}} finding(s) about its members",
        "Its members' subscriptions differ, members have no queue, queues have two owners, or there"
        " are offsets of topics that it no longer subscribes to.",
    ),
)

SET_ASIDE = (
    Alert(
        "OrderlyKeysParked",
        "warning",
        "orderly_group_parked_keys > 0",
        "5m",
        "5m",
        f"{GROUP}: {{{{ $value }}}} key(s) are parked",
        "A message failed for good; it and all later ones of its key wait in the park topic until"
        " somebody releases them. They are no longer part of the backlog.",
    ),
    Alert(
        "OrderlyParkedExpiring",
        "critical",
        f"orderly_group_parked_oldest_age_seconds > {at.PARKED_AGE}",
        "10m",
        "10m",
        f"{GROUP}: parked messages have not been stored again"
        " since {{ $value | humanizeDuration }}",
        "Members store parked messages again before the broker deletes them by age. None did so.",
    ),
    Alert(
        "OrderlyDeadLetters",
        "warning",
        "orderly_group_dead_letters > 0",
        "5m",
        "5m",
        f"{GROUP}: {{{{ $value }}}} dead letter(s)",
        "Messages failed for good and were given up; later ones of their keys have been consumed.",
    ),
    Alert(
        "OrderlyDeadLettersFlood",
        "critical",
        f"increase(orderly_group_dead_letters_total[15m]) > {at.DEAD_LETTER_FLOOD}"
        # The counter of a group's first dead letters begins high: there is no increase to see.
        f" or orderly_group_dead_letters_total > {at.DEAD_LETTER_FLOOD}"
        " unless count_over_time(orderly_group_dead_letters_total[1d] offset 15m)"
        " and on (cluster, group, job, instance) orderly_group_queues offset 15m",
        "0s",
        "15m",
        f"{GROUP}: {{{{ $value | humanize }}}} new dead letters in 15 minutes",
        "Many messages are given up, as when something that every handler needs is down.",
    ),
)
