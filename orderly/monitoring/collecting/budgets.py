"""How much one scan may ask beside the offsets: what does not fit has its turn in a later one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """Limits of one scan over the whole cluster.

    A group is asked about as a whole, so that all that is known of it is of one moment: the first
    one of a scan may be larger than a budget.

    Attributes:
        groups: whose members are asked for, at every broker.
        members: that are asked what they do; each question goes through a broker to the member.
        delays: (group, topic, broker) whose exact ages are asked for.
        heads: first unfinished messages that are read: two requests each.
        records: queues whose state records are read, beside those of groups that come first:
            most often five requests each.
        every: seconds until a group's turn comes again at the earliest.
    """

    groups: int = 64
    members: int = 32
    delays: int = 256
    heads: int = 20
    records: int = 32
    every: float = 30.0
