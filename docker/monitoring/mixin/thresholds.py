"""The figures that alerts compare with and dashboards colour by: change them here, then render.

Durations are PromQL's ("15m") where a rule waits, seconds where a metric is compared.
"""

JOB = "orderly"  # of the exporter in Prometheus' scrape_configs
RUNBOOK = "docs/how-to/alerts.md"  # or the address under which you publish that page
# The exporter's page, as Prometheus reaches it; or the address under which you publish it.
PAGE = "http://{{ $labels.instance }}"

MINUTE = 60
HOUR = 60 * MINUTE

HEAD_AGE = 15 * MINUTE
DRAIN_ETA = 4 * HOUR
DRAIN_HEAD_AGE = 5 * MINUTE  # younger heads: a busy stream always has a few messages under way
RETENTION_SHARE = 3  # alarm when what is left of the retention is under 1/3 of the head's age
PARKED_AGE = 48 * HOUR  # members store parked messages again after half the retention: 36 of 72 h
DEAD_LETTER_FLOOD = 10  # in 15 minutes
OWNER_CHANGES = 3  # a queue, in 10 minutes
SKEW_RATIO = 3  # busiest queue over the mean
SKEW_RATE = 10  # messages a second; below it a ratio is chance
CLOCK_OFFSET = 30
SCAN_AGE = 3 * MINUTE
