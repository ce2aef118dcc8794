"""All tables."""

from tests.unit.cli.golden import backlog, context, dlq, offsets, parked, send, tail, topic

TABLES = [each.TABLE for each in (backlog, context, dlq, offsets, parked, send, tail, topic)]
