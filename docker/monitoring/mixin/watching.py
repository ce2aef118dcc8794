"""Alerts on the watching itself: exporter, scan, brokers."""

from __future__ import annotations

from mixin import thresholds as at
from mixin.alert import GROUP, Alert, in_state

WATCHING = (
    Alert(
        "OrderlyExporterDown",
        "critical",
        f'up{{job="{at.JOB}"}} == 0 or absent(up{{job="{at.JOB}"}})',
        "3m",
        "5m",
        "Nobody watches the backlog: the exporter cannot be scraped",
        "No other alert about backlog can fire until Prometheus reaches `orderly exporter` again.",
    ),
    Alert(
        "OrderlyScanStale",
        "critical",
        f"orderly_scan_age_seconds > {at.SCAN_AGE}"
        " or orderly_scan_failures_total > 0"
        " unless orderly_scan_last_success_timestamp_seconds > 0",
        "2m",
        "5m",
        "Nobody watches the backlog: {{ $labels.instance }} has no fresh scan",
        "The exporter answers, but no scan of the cluster has succeeded for minutes, or ever.",
    ),
    Alert(
        "OrderlyBrokerUnreachable",
        "critical",
        "orderly_broker_up == 0",
        "2m",
        "5m",
        "Broker {{ $labels.broker }} does not answer",
        "Its queues are UNKNOWN for every group. Queues of other brokers are judged as before.",
    ),
    Alert(
        "OrderlyBacklogUnknown",
        "warning",
        f"{in_state('UNKNOWN')} unless on (cluster, job, instance) orderly_broker_up == 0",
        "10m",
        "5m",
        f"{GROUP}: {{{{ $value }}}} queue(s) cannot be judged",
        "Their offsets could not be read, although every broker answers.",
    ),
    Alert(
        "OrderlyBrokerClockOff",
        "warning",
        f"abs(orderly_broker_clock_offset_seconds) > {at.CLOCK_OFFSET}",
        "15m",
        "15m",
        "Broker {{ $labels.broker }}: its clock is off by {{ $value | humanizeDuration }}",
        "Its clock and the exporter's differ. Ages use only the broker's clock, so they stay right."
        " Offsets by time (resets, retention) follow the broker's clock.",
    ),
)
