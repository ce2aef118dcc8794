"""`orderly backlog`.

Measuring is `orderly.monitoring.collecting`, judging `orderly.monitoring.backlog`; here are the
options, the texts and the exit codes.
"""
