"""The backlog of consumer groups: readings, states, verdicts. Pure: values in, values out.

The one rule everything here obeys: what was not measured is None, never 0.
"""
