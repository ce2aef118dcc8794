"""Programs as users write them, for type checkers: read by test_public_types.py, never run.

A line that ends in `# refused` is one each must complain about; none must about any other.
"""

# ruff: noqa: RET503
from collections.abc import Sequence

from msgspec import Struct
from pydantic import BaseModel

from orderly import (
    Ack,
    Answer,
    AsyncHandler,
    AsyncListener,
    Attempt,
    Block,
    ConsumeContext,
    ConsumeResult,
    DeadLetter,
    Fail,
    Handler,
    Listener,
    OrderlyConsumer,
    Outcome,
    ReceivedMessage,
    Retry,
    Skip,
    Suspend,
    listener,
)

Messages = Sequence[ReceivedMessage]


def consume(handler: Handler | AsyncHandler) -> None:
    OrderlyConsumer("group", handler)


# --- what may be answered -----------------------------------------------------------------------


def acks(messages: Messages, context: ConsumeContext) -> Ack:
    return Ack()


def answers_java(messages: Messages, context: ConsumeContext) -> ConsumeResult:
    return context.suspend(5) if context.attempt > 1 else ConsumeResult.SUCCESS


def answers_anything(messages: Messages, context: ConsumeContext) -> Answer:
    answers: list[Answer] = [Suspend(5), Fail("no"), DeadLetter("no"), ConsumeResult.COMMIT]
    return answers[context.attempt]


async def awaits(messages: Messages, context: ConsumeContext) -> Ack | Suspend:
    return Ack() if context.lost.is_set() else Suspend()


class Shipping:
    def handle(self, messages: Messages, context: ConsumeContext) -> Answer:
        return DeadLetter("no")

    async def __call__(self, messages: Messages, context: ConsumeContext) -> Answer:
        return ConsumeResult.SUSPEND


def ship(message: ReceivedMessage, attempt: Attempt) -> Outcome:
    return Block("no") if attempt.number > 1 else Ack()


@listener(on_poison="park_key", retry=Retry(), decode="json")
def decorated(order: dict[str, str], attempt: Attempt) -> Ack | Skip:
    return Ack() if order else Skip("empty")


class Order(BaseModel):
    address: str


@listener(decode=Order)
async def decorated_for_a_model(order: Order, attempt: Attempt) -> Ack | Fail:
    return Ack() if order.address else Fail("no")


@listener(decode=Order.model_validate_json, on_error={ValueError: "skip", OSError: "wait"})
def decorated_for_a_function(order: Order, attempt: Attempt) -> Ack:
    return Ack()


class Parcel(Struct):
    address: str


@listener(decode=Parcel)
def decorated_for_a_struct(parcel: Parcel, attempt: Attempt) -> Ack:
    return Ack()


@listener(decode="bytes")
def decorated_for_bytes(body: bytes, attempt: Attempt) -> Ack:
    return Ack()


def handles_any_model(model: BaseModel, attempt: Attempt) -> Ack:
    return Ack()


def handles_an_order(order: Order, attempt: Attempt) -> Ack:
    return Ack()


async def awaits_an_order(order: Order, attempt: Attempt) -> Ack:
    return Ack()


@listener(poison=None)
async def decorated_async(message: ReceivedMessage, attempt: Attempt) -> Outcome:
    return Block("no")


async def ship_async(message: ReceivedMessage, attempt: Attempt) -> Ack:
    return Ack()


consume(acks)
consume(answers_java)
consume(answers_anything)
consume(awaits)
consume(Shipping())
consume(Shipping().handle)
consume(Listener(ship))
consume(AsyncListener(ship_async))
consume(decorated)
consume(decorated_async)
consume(decorated_for_a_model)
consume(decorated_for_a_function)
consume(decorated_for_a_struct)
consume(decorated_for_bytes)
consume(listener(decode=Order)(handles_any_model))
consume(listener(decode=Order)(awaits_an_order))
consume(Listener(handles_an_order, decode=Order))
consume(AsyncListener(awaits_an_order, decode=Order))
consume(lambda messages, context: Ack())

# --- what may not -------------------------------------------------------------------------------


def says_nothing(messages: Messages, context: ConsumeContext) -> None:
    context.done(messages[0])


def says_true(messages: Messages, context: ConsumeContext) -> bool:
    return True


def says_text(messages: Messages, context: ConsumeContext) -> str:
    return "SUCCESS"


def may_say_nothing(messages: Messages, context: ConsumeContext) -> Ack | None:
    return Ack() if messages else None


def forgets(messages: Messages, context: ConsumeContext) -> Answer:  # refused
    if context.attempt > 1:
        return Ack()


def blocks(messages: Messages, context: ConsumeContext) -> Block:
    return Block("a listener's outcome")


async def awaits_nothing(messages: Messages, context: ConsumeContext) -> None:
    return None


async def awaits_text(messages: Messages, context: ConsumeContext) -> str:
    return "SUCCESS"


async def awaits_a_coroutine(messages: Messages, context: ConsumeContext) -> Ack:
    return awaits(messages, context)  # refused


def takes_one(message: ReceivedMessage) -> Ack:
    return Ack()


def handles_text(text: str, attempt: Attempt) -> Ack:
    return Ack()


def ship_it(message: ReceivedMessage, attempt: Attempt) -> ConsumeResult:
    return ConsumeResult.SUCCESS


consume(says_nothing)  # refused
consume(says_true)  # refused
consume(says_text)  # refused
consume(may_say_nothing)  # refused
consume(blocks)  # refused
consume(awaits_nothing)  # refused
consume(awaits_text)  # refused
consume(takes_one)  # refused
consume(ship)  # refused
consume(Ack())  # refused
consume(lambda messages, context: Ack)  # refused
Listener(ship_it)  # refused
Listener(ship_async)  # refused
AsyncListener(ship)  # refused
listener(on_poison="park")  # refused
listener(on_error={OSError: "later"})  # refused
listener(on_error={5: "skip"})  # refused
listener(decode=Order)(handles_text)  # refused
listener(decode=Parcel)(handles_an_order)  # refused
listener(decode="bytes")(handles_text)  # refused
listener(decode=len)(handles_text)  # refused
listener()(handles_text)  # refused
listener(handles_text)  # refused
listener(decode="xml")  # refused
listener(decode=3)  # refused
Listener(handles_text, decode=Order)  # refused
AsyncListener(awaits_an_order, decode="bytes")  # refused
listener()(ship_it)  # refused
