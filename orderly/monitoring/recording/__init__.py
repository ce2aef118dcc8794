"""A history of backlogs: snapshots of the monitor, kept as Parquet for later questions.

Needs pyarrow, the extra `spark`. What is measured while is the monitor's business; who reads it,
`orderly spark backlog`, pandas or any other tool that knows Parquet, needs no broker.
"""
