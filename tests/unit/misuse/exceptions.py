"""What is not checked where it is given, each with its reason."""

from __future__ import annotations

from fnmatch import fnmatchcase

TOLD = "the library makes it, programs read it"
PLAIN = "a plain value, made for each message; whoever takes one checks its fields"
PER_CALL = "made for each call of a handler; by hand in tests only, where it is seen at once"
BY_CLIENT = "a Client makes it"
BY_CONSUMER = "the consumer calls it with its own lists, and every member's must agree"
UNUSED = "selectors get it, and these do not look at it"
ANY = "anything may be given: a user's own selector decides"
JSON = "anything that JSON has; unit/test_message has what it refuses"

EXCEPTIONS: dict[str, str] = {
    # pages
    "orderly.native.*": "needs librocketmq; tests/native and tests/unit/native have its refusals",
    "orderly.monitoring.*": "for operators, behind commands: see unit/cli/test_hostile_arguments",
    # values
    "orderly.MessageQueue(*": PLAIN,
    "orderly.ReceivedMessage(*": TOLD,
    "orderly.ReceivedMessage.changed(*": "as the class itself",
    "orderly.SendResult(*": TOLD,
    "orderly.Consumed(*": TOLD,
    "orderly.ConsumeContext(*": PER_CALL,
    "orderly.Attempt(*": PER_CALL,
    "orderly.ordering.context.Failure(*": PER_CALL,
    "orderly.ordering.explain.Explanation(*": TOLD,
    "orderly.ordering.explain_keys.KeyExplanation(*": TOLD,
    "orderly.consumer.health.*": TOLD,
    "orderly.consumer.statistics.*": TOLD,
    "orderly.selectors.Rule(*": TOLD,
    "orderly.testing.oracle.Sent(*": "a record; any hashable key and id; `judge` checks the kind",
    "orderly.testing.oracle.Delivered(*": "as Sent",
    "orderly.testing.oracle.Verdict*": TOLD,
    # parts of others
    "orderly.client.admin.Admin(*": BY_CLIENT,
    "orderly.client.group_admin.GroupAdmin(*": BY_CLIENT,
    "orderly.ordering.allocation.averagely(*": BY_CONSUMER,
    "orderly.ordering.allocation.by_circle(*": BY_CONSUMER,
    # arguments
    "orderly.selectors.*_mod(_message)": UNUSED,
    "orderly.selectors.proxy_hash(_message)": UNUSED,
    "*.send_json(value)": JSON,
    "*.of_json(value)": JSON,
    "*.send(arg)": ANY,
    "*.submit(arg)": ANY,
    "*.asend(arg)": ANY,
    "orderly.selectors.choose(arg)": ANY,
    "orderly.selectors.lane_of(arg)": ANY,
    "orderly.*Config.from_*(explicit)": "those of the class, which checks them",
    "orderly.*istener(settings)": "those of Rules, which checks them",
    "orderly.selectors.choose(queues)": "its selector refuses them, with its own name",
}


def reason(name: str, parameter: str) -> str | None:
    """Why an argument is not checked; None: it is."""
    place = f"{name}({parameter})"
    return next((why for what, why in EXCEPTIONS.items() if fnmatchcase(place, what)), None)
