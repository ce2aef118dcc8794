"""Series of a backlog over time, written down by hand."""

import numpy as np

from orderly.spark.jobs.backlog.series import Series

NAN = float("nan")
EVERY = 15.0


def series(
    backlog, at=None, head_age=None, committed=None, maximum=None, counted=None, whole=None,
    aged=None,
):  # fmt: skip
    """Samples every 15 s unless `at` says when; None is not known."""
    count = len(backlog)

    def column(values, default):
        values = default if values is None else values
        return np.array([NAN if v is None else v for v in values], dtype=float)

    return Series(
        at=column(at, [EVERY * n for n in range(count)]),
        interval=np.full(count, EVERY),
        backlog=column(backlog, backlog),
        head_age=column(head_age, [0] * count),
        committed=column(committed, range(count)),
        maximum=column(maximum, range(100, 100 + count)),
        counted=column(counted, [1] * count),
        whole=np.array([True] * count if whole is None else whole, dtype=bool),
        aged=np.array([True] * count if aged is None else aged, dtype=bool),
    )
