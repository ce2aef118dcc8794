"""What all tasks of one write share. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from orderly.spark.connecting import Access
from orderly.spark.sink.roles import Roles


@dataclass(frozen=True, slots=True)
class Plan:
    """One write, ready to be done by any number of tasks. Picklable, without secrets.

    Attributes:
        access: how to reach the cluster.
        topic: where to, with its namespace.
        layout: the pin that all tasks send by; "loose": each by the route it finds.
        selector: one of option_table.SELECTORS.
        roles: of the columns.
        max_batch_bytes: of one request.
    """

    access: Access
    topic: str
    layout: str
    selector: str
    roles: Roles
    max_batch_bytes: int
