"""What is done with a poisoned message."""

from __future__ import annotations

from orderly.listening.attempt import Attempt
from orderly.listening.delivery import Delivery
from orderly.listening.outcomes import FINAL, Block, Outcome, Skip, too_long
from orderly.listening.settings import OnPoison, Policy
from orderly.listening.telling import Events
from orderly.listening.trial import Failed
from orderly.log import error_text, type_text
from orderly.ordering.outcomes import DeadLetter, Fail, Park, Suspend
from orderly.ordering.verdict import Verdict

_NAMED: dict[str, type[Block | DeadLetter | Skip | Park]] = {
    "block": Block,
    "dead_letter": DeadLetter,
    "skip": Skip,
    "park_key": Park,
}


def outcome_of(
    policy: OnPoison, delivery: Delivery, failed: Failed, verdict: Verdict, events: Events
) -> Outcome:
    """Return what the policy does with the message, and tell it.

    Args:
        policy: of the settings.
        delivery: of the message.
        failed: its last try.
        verdict: that found it poisoned.
        events: where it is told.
    """
    if isinstance(policy, str):
        name: str = policy
        outcome: Outcome = _NAMED[name](verdict.reason.value)
    else:
        name = str(getattr(policy, "__qualname__", type(policy).__qualname__))
        outcome = _asked(policy, delivery, verdict, events)
    events.poison(delivery, failed, verdict, name, outcome)
    return outcome


def _asked(policy: Policy, delivery: Delivery, verdict: Verdict, events: Events) -> Outcome:
    """Ask the user's policy; whatever goes wrong with it, the message blocks: nothing is lost."""
    raised: Exception | None = None
    try:
        attempt = Attempt(delivery.message, delivery.context)
        outcome = policy(delivery.message, attempt, verdict)
        longest = delivery.context.max_suspend
        if isinstance(outcome, FINAL | Fail) and not too_long(outcome, longest):
            return outcome
        text = f"answered {outcome if isinstance(outcome, Suspend) else type_text(outcome)}"
    except Exception as error:  # noqa: BLE001 - a user's function may do anything
        raised, text = error, error_text(error)
    events.policy_failed(delivery, text, raised)
    return Block(verdict.reason.value)
