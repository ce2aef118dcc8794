"""The handler: one entry changes one account's balance, once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypedDict

from django.db import close_old_connections, transaction

import orderly
from accounts.models import Account
from accounts.once import apply_once
from orderly import Ack, Attempt, Outcome


class Entry(TypedDict):
    """What a body says."""

    cents: int


@orderly.listener(
    decode="json", fatal=(Account.DoesNotExist, KeyError, TypeError), on_poison="park_key"
)
def enter(entry: Entry, attempt: Attempt) -> Outcome:
    """Book an entry. One of an account that is not there parks that account's entries."""
    with _connection(), transaction.atomic():
        if apply_once(attempt):
            account = Account.objects.select_for_update().get(number=attempt.key)
            account.balance += entry["cents"]
            account.save(update_fields=["balance"])
    return Ack()  # behind the commit, never in front of it


@contextmanager
def _connection() -> Iterator[None]:
    """As Django does around each request: nobody else does it on a consumer's threads.

    Without it a connection that the server has ended would fail for ever.
    """
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()
