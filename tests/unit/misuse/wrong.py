"""Wrong values for every kind of argument, and what is no mistake at all.

A new annotation has to be entered here, or the test of its callable fails.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from inspect import Parameter
from typing import Any

from orderly import MessageQueue
from tests.unit.misuse.public import Public

THING = object()  # what nothing takes
HUGE = 10**400


async def a_coroutine(*_):
    """No plain function."""


def no_arguments():
    """Cannot be called with any."""


def many_arguments(_one, _two, _three, _four, _five):
    """Cannot be called with fewer."""


NO_TEXT = (5, b"text", THING, ["text"])
NO_CHOICE = (None, *NO_TEXT, "none of these")
NO_INT = ("1", b"1", True, THING, [1], math.nan, math.inf, -math.inf, 1.5)
NO_NUMBER = (*NO_INT[:-1], HUGE)
NO_COUNT = (*NO_INT, -1)
NO_FLAG = (None, 0, 1, "yes", THING)
NO_THING = (5, "text", THING, [])
NO_MAPPING = (5, "text", THING, [("name", "value")])
NO_FUNCTION = (5, "text", THING, a_coroutine)
NO_LIST = (5, "text", THING)
BAD_QUEUES = (
    MessageQueue(5, "broker", 0),
    MessageQueue("orders", None, 0),
    MessageQueue("orders", "broker", "0"),
    MessageQueue("orders", "broker", -1),
)

WRONG: dict[str, tuple[Any, ...]] = {
    # --- texts
    "str": (None, *NO_TEXT),
    "str | None": NO_TEXT,
    "bytes | str": (None, 5, THING, b"", "", bytearray(b"x"), "\ud800"),
    "Collection[str]": (None, *NO_LIST, [5], [None]),
    "bytes": (None, "text", 5, THING, b"", bytearray(b"x")),
    "str | int | None": (1.5, True, b"key", THING, ["key"]),
    "str | os.PathLike[str] | None": (5, THING, ["path"]),
    "Path": (None, 5, "text", THING),
    "Path | None": (5, "text", THING),
    "Iterable[str]": (None, *NO_LIST, [5], [None]),
    "Sequence[str]": (None, *NO_LIST, [5], [None]),
    "Sequence[str] | None": (*NO_LIST, [5]),
    "tuple[str, ...]": (None, *NO_LIST, (5,), (None,)),
    "tuple[tuple[str, int], ...]": (None, *NO_LIST, (("broker-a",),), (("broker-a", "8"),)),
    "Mapping[str, str]": (None, *NO_MAPPING, {"name": 5}, {5: "value"}),
    "Mapping[str, str] | None": (*NO_MAPPING, {"name": 5}, {5: "value"}),
    "Mapping[str, Any] | None": (*NO_MAPPING, {5: "value"}),
    "object": (None, 1.5, True, THING, b"key"),
    "Hashable": (5, b"key", THING, ["key"], 1.5),
    # --- numbers
    "int": (None, *NO_COUNT),
    "int | None": NO_COUNT,
    "float": (None, *NO_NUMBER),
    "float | None": NO_NUMBER,
    "bool": NO_FLAG,
    "int | str | datetime": (None, 1.5, True, b"first", "yesterday", "", THING),
    # --- functions
    "Handler | AsyncHandler": (None, 5, "text", THING, no_arguments, many_arguments),
    "Handler | AsyncHandler | Handlers": (
        None,
        5,
        "text",
        THING,
        {},
        {"orders": 5},
        {5: lambda _messages, _context: None},
        no_arguments,
        many_arguments,
    ),
    "Allocation": (None, *NO_FUNCTION, no_arguments, many_arguments),
    "Selector": (None, 5, "text", THING),
    "Selector | None": (5, "text", THING),
    "Function": (None, *NO_FUNCTION, no_arguments, many_arguments),
    "AsyncFunction": (None, 5, "text", THING, no_arguments),
    "Function | AsyncFunction | None": (5, "text", THING, no_arguments, many_arguments),
    "RoomOf": (None, *NO_FUNCTION, no_arguments, many_arguments),
    "Progress | None": (*NO_FUNCTION, no_arguments, many_arguments),
    "StopBaseT": (None, *NO_FUNCTION),
    "WaitBaseT": (None, *NO_FUNCTION),
    "RetryBaseT | None": NO_FUNCTION,
    "Decode | None": (5, "text", THING, a_coroutine),
    "OnPoison": (None, *NO_FUNCTION, no_arguments, many_arguments),
    "OnError": (None, 5, "text", ValueError, (5,), {5: "skip"}, {ValueError: "no"}, [ValueError]),
    # --- values of the library
    "Message": (None, 5, "text", THING, {}),
    "Given": (None, 5, "text", THING, {}),
    "ReceivedMessage": (None, 5, "text", THING, {}),
    "MessageQueue": (None, *NO_THING, *BAD_QUEUES),
    "Iterable[MessageQueue]": (None, *NO_LIST, [5], [None], *([queue] for queue in BAD_QUEUES)),
    "Iterable[MessageQueue] | None": (*NO_LIST, [5], [None], *BAD_QUEUES, ["orders/broker-a/0"]),
    "Sequence[MessageQueue]": (None, 5, THING, ()),
    "Mapping[MessageQueue, int]": (None, *NO_MAPPING, {"queue": 5}, {BAD_QUEUES[0]: 5}),
    "Sequence[QueueRange]": (None, *NO_LIST, [5], ()),
    "Iterable[Sent]": (None, *NO_LIST, [5]),
    "Iterable[Delivered | Committed]": (None, *NO_LIST, [5]),
    "Fault *": (None, 5, "text", THING),
    "Command *": (None, 5, "GET key", THING, (), (None,), (THING,)),
    "str **": (5, THING, None),
    "str | int **": (1.5, THING, b"text"),
}
"""By annotation, as it is written; "*" and "**" for what a star takes."""

_OF_A_CLASS = (
    "Action", "AsyncConnection", "AsyncRedis", "BrokerData", "Connection", "ConsumeContext",
    "DataFrame", "Layout", "MetaData", "OrderlyConsumer", "Owner", "ParkLimits", "Redis",
    "Retry", "SparkSession", "Subscription", "TopicConfig", "TopicRoute",
)  # fmt: skip
_OF_A_CLASS_OR_NONE = (
    "Client", "ClientConfig", "ConsumeContext", "ConsumerConfig", "ConsumerHooks", "Failure",
    "MessageType", "MetaData", "MeterProvider", "PoisonRules", "ProducerConfig", "TopicConfig",
    "TracerProvider",
)  # fmt: skip
WRONG |= dict.fromkeys(_OF_A_CLASS, (None, *NO_THING))
WRONG |= {f"{name} | None": NO_THING for name in _OF_A_CLASS_OR_NONE}

MORE: dict[str, tuple[Any, ...]] = {
    "namesrv": ("a b", "host:port", ":9876", "host:0", "http://host:9876", "a/b", "host\n:1"),
    "topic": ("", "a b", "t" * 128, "späte"),
    "group": ("", "a b", "g" * 121, "späte"),
    "timeout": (-1.0, 1e300),
    "seconds": (),
    "layout": (),
    "tags": ("||", "* || a"),
    "sql": ("", "  "),
    "generation": (2**31,),
    "namesrv_port": (65536,),
    "broker_port": (65536,),
    "port": (65536,),
}
"""By name, besides those of the annotation."""


def callable_kind(annotation: str) -> tuple[Any, ...] | None:
    """Wrong values of `Callable[...]`, by how many arguments it is called with."""
    if not annotation.startswith("Callable["):
        return None
    none_too = () if annotation.endswith("| None") else (None,)
    takes_some = () if annotation.startswith("Callable[[],") else (no_arguments,)
    return (*none_too, *NO_FUNCTION, *takes_some, many_arguments)


def wrong_values(public: Public, parameter: Parameter) -> Iterator[Any]:
    """What the argument must not be."""
    annotation = str(parameter.annotation)
    stars = {Parameter.VAR_POSITIONAL: " *", Parameter.VAR_KEYWORD: " **"}
    annotation += stars.get(parameter.kind, "")
    is_choice = annotation.startswith("Literal[")
    found = NO_CHOICE if is_choice else callable_kind(annotation) or WRONG.get(annotation)
    assert found is not None, (
        f"{public.name} takes {parameter.name}: {annotation}; say in WRONG what it must not be"
    )
    yield from found
    yield from MORE.get(parameter.name, ())
