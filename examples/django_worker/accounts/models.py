"""Accounts, their booked entries, and the last message of each account."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class Account(models.Model):
    """An account; its number is the sharding key of its entries."""

    number = models.CharField(max_length=64, primary_key=True)
    balance = models.BigIntegerField(default=0)  # cents

    def __str__(self) -> str:
        return f"{self.number}: {self.balance}"


class Booked(models.Model):
    """An entry that was booked, by the id that its sender gave it.

    Rows may be deleted when no sender will send them again.
    """

    entry = models.CharField(max_length=64, primary_key=True)

    def __str__(self) -> str:
        return self.entry


class Applied(models.Model):
    """One row for each key of each queue and group, see `accounts.once`.

    Rows of keys that come no more may be deleted when the broker has deleted their messages:
    `stored_at` is when the last one was stored, in milliseconds.
    """

    group = models.CharField(max_length=255)
    topic = models.CharField(max_length=255)
    broker = models.CharField(max_length=255)
    queue_id = models.IntegerField()
    generation = models.IntegerField()
    key = models.CharField(max_length=201)
    offset = models.BigIntegerField(default=-1)
    token = models.BigIntegerField(null=True)
    stored_at = models.BigIntegerField(default=0)
    recent = models.TextField(default="")

    class Meta:
        """Each row is unique: of two owners that begin at once, the second finds the first's."""

        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["group", "topic", "broker", "queue_id", "generation", "key"],
                name="one_row_a_key",
            )
        ]

    def __str__(self) -> str:
        return f"{self.group} {self.topic}/{self.broker}/{self.queue_id} {self.key}: {self.offset}"
