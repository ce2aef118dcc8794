"""`manage.py test`: the handler, message by message, in Django's test database; no broker."""

from __future__ import annotations

import json
import threading

from django.test import TestCase

from accounts.entries import enter
from accounts.models import Account
from orderly import Ack, ConsumeContext, MessageQueue, Park, ReceivedMessage, Suspend

QUEUE = MessageQueue("entries", "broker-a", 0)


def cents(amount: object, name: str) -> dict[str, object]:
    """Write an entry."""
    return {"id": name, "cents": amount}


class QueueOwnership:
    """The context of a member that owns a queue; the token rises with each owner."""

    deadline = float("inf")
    lost = threading.Event()

    def __init__(self, token: int) -> None:
        self.token = token

    def extend(self) -> float:
        """Renew the lock."""
        return self.deadline


def entry(offset: int, body: object, sent_as: str = "", stored: float = 1.0) -> ReceivedMessage:
    """An entry of account a-1, as the broker stored it."""
    return ReceivedMessage(
        queue=QUEUE,
        queue_offset=offset,
        body=json.dumps(body).encode(),
        properties={"__SHARDINGKEY": "a-1", "UNIQ_KEY": sent_as or f"id-{offset}"},
        message_id=sent_as or f"id-{offset}",
        offset_message_id=f"stored-{offset}",
        born_time=stored,
        store_time=stored,
        born_host="",
        store_host="",
        reconsume_times=0,
        flag=0,
        sys_flag=0,
        physical_offset=offset,
        stored_size=1,
    )


def book(message: ReceivedMessage, token: int = 1) -> object:
    """Call the handler as the owner with that token; returns the outcome."""
    context = ConsumeContext(QUEUE, "accounts", key="a-1", ownership=QueueOwnership(token))
    return enter.run(message, context=context)


class EntriesOnce(TestCase):
    """An entry counts once, no matter who delivers it and how often."""

    def setUp(self) -> None:
        """One account."""
        Account.objects.create(number="a-1")

    def assert_balance(self, cents: int) -> None:
        """Compare what is stored."""
        assert Account.objects.get(number="a-1").balance == cents

    def test_entries_are_booked(self) -> None:
        """Each entry is booked."""
        for offset, amount in enumerate((5, -3)):
            assert book(entry(offset, cents(amount, f"e{offset}"))) == Ack()
        self.assert_balance(2)

    def test_a_repeat_is_passed_over(self) -> None:
        """It was already delivered before a crash."""
        for offset in (0, 1, 0, 1):
            assert book(entry(offset, cents(5, f"e{offset}"))) == Ack()
        self.assert_balance(10)

    def test_a_producers_retry_is_passed_over(self) -> None:
        """It is stored twice, with the id that the producer gave it."""
        for offset in (0, 1):
            assert book(entry(offset, cents(5, f"e{offset}"), sent_as="same")) == Ack()
        self.assert_balance(5)

    def test_what_the_sender_sends_again_is_passed_over(self) -> None:
        """To the broker it is another message; only the entry's own id shows the repeat."""
        for offset in (0, 1):
            assert book(entry(offset, cents(5, "e0"))) == Ack()
        self.assert_balance(5)

    def test_a_stale_owner_books_nothing(self) -> None:
        """Another member owns the queue and has already changed the account."""
        book(entry(0, cents(5, "e0")), token=7)
        assert isinstance(book(entry(1, cents(5, "e1")), token=6), Suspend)
        self.assert_balance(5)

    def test_a_queue_made_anew_is_told_and_not_guessed_at(self) -> None:
        """A message stored later has a lower offset: the topic was deleted in between."""
        book(entry(9, cents(5, "e9")))
        assert isinstance(book(entry(0, cents(5, "e0"), stored=99.0)), Suspend)
        self.assert_balance(5)

    def test_a_bad_entry_parks_and_notes_nothing(self) -> None:
        """After the fix, the released entry counts."""
        amounts = [cents(amount, "e0") for amount in (2.7, True, "5", None)]
        for body in ({}, [], {"cents": 5}, {"id": 1, "cents": 5}, *amounts):
            assert isinstance(book(entry(0, body)), Park), body
        assert book(entry(0, cents(5, "e0"))) == Ack()
        self.assert_balance(5)

    def test_an_entry_of_an_unknown_account_parks(self) -> None:
        """It stays parked until somebody opens the account."""
        Account.objects.all().delete()
        assert isinstance(book(entry(0, cents(5, "e0"))), Park)
