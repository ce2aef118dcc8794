"""The events of a listener. Each says where, and none shows a body."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from orderly.listening.delivery import Delivery
from orderly.listening.outcomes import Outcome, Skip
from orderly.listening.trial import Failed
from orderly.log import get_logger, key_text, where
from orderly.ordering.outcomes import DeadLetter
from orderly.ordering.verdict import Verdict

_GAP = {"order_gap": "later messages of its key go on without it"}


class Events:
    """Tells what becomes of messages: docs/reference/events.md has the table. Thread-safe."""

    def __init__(self) -> None:
        self._log = get_logger("orderly.listener")

    def retry(
        self,
        delivery: Delivery,
        failed: Failed,
        verdict: Verdict | None,
        seconds: float,
        *,
        in_place: bool,
    ) -> None:
        """A failed message waits for `seconds` and is tried again."""
        self._log.warning(
            "message.retry",
            **delivery.at,
            **_of(failed),
            seconds=round(seconds, 3),
            in_place=in_place,
            finding=None if verdict is None else verdict.finding.name,
            because=None if verdict is None else verdict.reason.name,
            exc_info=failed.error,
        )

    def poison(
        self, delivery: Delivery, failed: Failed, verdict: Verdict, policy: str, outcome: Outcome
    ) -> None:
        """A message was found poisoned: why, on what evidence, and what is done with it."""
        self._log.error(
            "message.poison",
            **delivery.at,
            **_of(failed),
            message_id=delivery.message.message_id,
            because=verdict.reason.name,
            evidence=asdict(verdict.evidence),
            policy=policy,
            outcome=type(outcome).__name__,
            **(_GAP if isinstance(outcome, DeadLetter | Skip) else {}),
            exc_info=failed.error,
        )

    def blocked(self, delivery: Delivery, reason: str, seconds: float) -> None:
        """A message holds its lane up until it succeeds."""
        self._log.error("message.blocked", **delivery.at, reason=reason, seconds=round(seconds, 3))

    def skipped(self, delivery: Delivery, reason: str, failed: Failed | None) -> None:
        """A message is given up: all that is needed to find it, and to prove which one it was."""
        message = delivery.message
        fields = delivery.at | ({} if failed is None else _of(failed)) | {"reason": reason}
        self._log.error(
            "message.skipped",
            **fields,
            message_id=message.message_id,
            offset_message_id=message.offset_message_id,
            keys=[key_text(key) for key in message.keys],
            born_time=message.born_time,
            store_time=message.store_time,
            body_bytes=len(message.raw_body),
            body_sha256=hashlib.sha256(message.raw_body).hexdigest(),
        )

    def replay_failed(self, delivery: Delivery, failed: Failed) -> None:
        """A message failed while it was replayed, or on a dry run."""
        self._log.warning(
            "message.replay_failed",
            **delivery.at,
            **_of(failed),
            dry_run=delivery.context.dry_run,
            exc_info=failed.error,
        )

    def policy_failed(self, delivery: Delivery, text: str, error: Exception | None) -> None:
        """The user's policy gave no outcome."""
        self._log.error("poison_policy.failed", **delivery.at, reason=text, exc_info=error)

    def rule_failed(self, delivery: Delivery, error: Exception) -> None:
        """One of the rules of `retry` raised."""
        self._log.error("retry_rule.raised", **delivery.at, exc_info=error)

    def not_renewed(self, delivery: Delivery, text: str) -> None:
        """The lock could not be renewed before a retry."""
        self._log.warning("message.retry_put_off", **delivery.at, error=text)

    def circuits(
        self, group: str, opened: Iterable[str | None], closed: Iterable[str | None]
    ) -> None:
        """Circuits opened or closed; None holds all keys, a fingerprint those that fail so."""
        for fingerprint in opened:
            self._log.warning("circuit.opened", **where(group), fingerprint=fingerprint)
        for fingerprint in closed:
            self._log.info("circuit.closed", **where(group), fingerprint=fingerprint)


def _of(failed: Failed) -> dict[str, Any]:
    digest, text = failed.fingerprint.digest, failed.fingerprint.text
    return {"reason": failed.text, "fingerprint": digest, "fingerprint_text": text}
