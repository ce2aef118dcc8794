"""The handler: one entry changes one account's balance, once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypedDict

from django.db import DataError, close_old_connections, transaction

import orderly
from accounts.models import Account, Booked
from accounts.once import apply_once
from orderly import Ack, Attempt, Outcome, Park


class Entry(TypedDict):
    """A message's body. The sender repeats an entry with the same id."""

    id: str
    cents: int


# DataError: the column does not hold it, too long or too large.
_BAD = dict.fromkeys((Account.DoesNotExist, DataError, KeyError, TypeError), "park_key")


@orderly.listener(decode="json", on_error=_BAD, on_poison="park_key")
def enter(entry: Entry, attempt: Attempt) -> Outcome:
    """Book an entry. If its account does not exist, the account's entries are parked."""
    if type(entry["id"]) is not str or type(entry["cents"]) is not int:  # 2.7, "5", true
        return Park("an entry's id is a text, its cents are a whole number")
    with _connection(), transaction.atomic():
        if apply_once(attempt) and Booked.objects.get_or_create(entry=entry["id"])[1]:
            account = Account.objects.select_for_update().get(number=attempt.key)
            account.balance += entry["cents"]
            account.save(update_fields=["balance"])
    return Ack()  # behind the commit, never in front of it


@contextmanager
def _connection() -> Iterator[None]:
    """Do what Django does around each request; on a consumer's threads nothing else does.

    Without it a connection that the server has ended would fail for ever.
    """
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()
