"""The history of backlogs: when groups were too far behind, stuck or growing, and at which hours.

Reads what `orderly.monitoring.recording` wrote; no broker is asked. What was not measured is a gap
and never 0, in figures, tables and plots.
"""
