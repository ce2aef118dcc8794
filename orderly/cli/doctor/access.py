"""What the configured key may not do, asked for without joining, pulling or writing.

Rights to send, and to make topics, only a message and a topic would tell: they are not tried.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from orderly.cli.doctor.brokers import Seen, administers
from orderly.cli.doctor.finding import Finding, State
from orderly.client import Client
from orderly.client.replies import not_granted
from orderly.errors import NoPermission, OrderlyError
from orderly.model import MessageQueue

AREA = "access"
PART = "access key"
_MISSING = re.compile(r"(User:\S+) has no permission to access ((?:Topic|Group):\S+)")


def look_at_key(client: Client, seen: Sequence[Seen]) -> Finding:
    """What brokers think of the key: it lets us in, and makes us an administrator, or not."""
    named = "a key is set" if client.config.access_key else "no key is set"
    for it in seen:
        for error in (it.running.error, it.settings.error):
            if isinstance(error, NoPermission) and not not_granted(error):
                found = f"{named}, and broker {it.replica.name} refuses it"
                return Finding(AREA, PART, State.CRITICAL, found, str(error))
    if not any(it.running.version is not None for it in seen):
        advice = "look again when a broker answers"
        return Finding(AREA, PART, State.UNKNOWN, f"{named}; no broker answered", advice)
    if not all(map(administers, seen)):
        advice = (
            "use an administrator's key (user type Super) for `orderly backlog`, the exporter and"
            " most administration; consumers and producers need none"
        )
        return Finding(AREA, PART, State.ABSENT, f"{named}; it is no administrator's", advice)
    return Finding(AREA, PART, State.OK, f"{named}; brokers tell all that was asked")


def look_at_rights(
    client: Client, group: str | None, queues: Sequence[MessageQueue]
) -> Iterator[Finding]:
    """Try what a consumer asks for, on one queue of each topic and broker.

    Args:
        client: to ask with.
        group: as brokers name it; None: only what needs no group.
        queues: to ask about.
    """
    for queue in queues:
        where = f"{queue.topic} on {queue.broker_name}"
        refused = [error for ask in _trials(client, group, queue) if (error := _refusal(ask))]
        once = {refusal_of(error): error for error in refused}
        for text, error in once.items():
            yield Finding(AREA, where, State.CRITICAL, text, how_to_grant(error))
        if not once:
            allowed = "may be read" if group is None else f"group {group} may consume it"
            yield Finding(AREA, where, State.OK, allowed)


def _trials(
    client: Client, group: str | None, queue: MessageQueue
) -> Iterator[Callable[[], object]]:
    brokers = client.brokers
    yield lambda: brokers.max_offset(queue)
    if group is None:
        return
    yield lambda: brokers.query_offset(group, queue)
    # To give back a lock that we do not hold changes nothing, and needs what a pull needs.
    yield lambda: brokers.unlock_queues(group, queue.broker_name, [queue])


def _refusal(ask: Callable[[], object]) -> NoPermission | None:
    """Whether it is refused; what is not answered at all is told elsewhere."""
    try:
        ask()
    except NoPermission as error:
        return error
    except OrderlyError:
        return None
    return None


def refusal_of(error: NoPermission) -> str:
    """What was refused, in the broker's words."""
    return f"refused: {error.remark.strip()}" if error.remark else "refused"


def how_to_grant(error: NoPermission) -> str:
    """The command that grants it, where the broker says what is missing (ACL 2.0)."""
    found = _MISSING.search(error.remark)
    if found is None:
        return str(error)
    user, resource = found.groups()
    return (
        f"grant it (mqadmin updateAcl -s {user} -r {resource} -a Sub,Get -d Allow), or set another"
        " access_key; docs/how-to/security.md says what is needed"
    )
