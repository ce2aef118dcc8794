"""One consumer, several topics, a handler for each: which of them a batch is for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Self, cast

from orderly.config import check_callable
from orderly.config.arguments import check_arguments, check_named_texts, is_async
from orderly.errors import ConfigError
from orderly.model import ReceivedMessage
from orderly.ordering.context import AsyncHandler, ConsumeContext, Handler
from orderly.ordering.results import Answer

Handlers = Mapping[str, Handler] | Mapping[str, AsyncHandler]
"""By topic, as the program names it; all plain or all `async def`."""


class TopicHandlers:
    """A consumer's handler, made of one for each topic. Thread-safe if they are.

    A batch is of one topic. Only the group's own retry topic may bring several in one; then the
    messages of the first are handed out, and the others come again, untried.

    Args:
        handlers: by topic.
    """

    def __init__(self, handlers: Mapping[str, Any]) -> None:
        self.handlers = dict(handlers)

    def __call__(self, messages: Sequence[ReceivedMessage], context: ConsumeContext) -> Answer:
        """Call the handler of the messages' topic."""
        handler, batch = self._for(messages, context)
        return cast("Answer", handler(batch, context))

    def _for(
        self, messages: Sequence[ReceivedMessage], context: ConsumeContext
    ) -> tuple[Callable[..., Any], Sequence[ReceivedMessage]]:
        topic = messages[0].topic
        other = next((n for n, each in enumerate(messages) if each.topic != topic), len(messages))
        for later in messages[other:]:
            context.not_tried(later)
        try:
            return self.handlers[topic], messages[:other]
        except KeyError:
            raise ConfigError(
                f"there is no handler for topic {topic!r}: give the consumer one"
            ) from None

    def call_failed(
        self, messages: Sequence[ReceivedMessage], context: ConsumeContext, error: BaseException
    ) -> Any:
        """Report a call that was ended from outside to a handler that takes such reports."""
        handler, batch = self._for(messages, context)
        report = getattr(handler, "call_failed", None)
        if report is None:
            raise error
        return report(batch, context, error)

    # --- what the consumer asks a handler before it starts -------------------------------------

    @property
    def dry_run(self) -> bool:
        """Whether all of them are fit for a dry run."""
        return all(getattr(each, "dry_run", False) is True for each in self.handlers.values())

    @property
    def work(self) -> TopicHandlers:
        """What a worker process runs of them."""
        return TopicHandlers({t: getattr(h, "work", h) for t, h in self.handlers.items()})

    def through(self, call: Callable[[Sequence[ReceivedMessage], ConsumeContext], Any]) -> Self:
        """Return them with their functions run elsewhere.

        Args:
            call: calls `work` in another process.
        """
        return type(self)(
            {
                topic: handler.through(call) if hasattr(handler, "through") else call
                for topic, handler in self.handlers.items()
            }
        )


class AsyncTopicHandlers(TopicHandlers):
    """The same of coroutines."""

    async def __call__(  # type: ignore[override]  # the consumer asks which it is
        self, messages: Sequence[ReceivedMessage], context: ConsumeContext
    ) -> Answer:
        """Await the handler of the messages' topic."""
        handler, batch = self._for(messages, context)
        return await cast("Awaitable[Answer]", handler(batch, context))


def handler_of(
    given: Handler | AsyncHandler | Handlers,
) -> tuple[Handler | AsyncHandler, tuple[str, ...]]:
    """Return a consumer's handler, and the topics that it is for; (): any.

    Raises:
        ConfigError: something that cannot be called, no topic, or plain and async ones mixed.
    """
    if not isinstance(given, Mapping):
        _check(given, "the handler")
        return given, ()
    check_named_texts("the handler", given, texts=False)
    if not given:
        raise ConfigError("the mapping of handlers is empty: give each topic a handler")
    for topic, handler in given.items():
        _check(handler, f"the handler of {topic}")
    kinds = {is_async(handler) for handler in given.values()}
    if len(kinds) > 1:
        raise ConfigError(
            "the handlers of one consumer must be all plain or all async: give the others a"
            " consumer with its own group"
        )
    kind = AsyncTopicHandlers if kinds.pop() else TopicHandlers
    return kind(given), tuple(given)


def _check(handler: object, what: str) -> None:
    check_callable(what, handler)
    check_arguments(what, cast("Callable[..., object]", handler), "messages", "context")


def each_of(handler: object) -> Iterable[object]:
    """The handlers that a consumer's handler is made of: those of its topics, or itself."""
    return handler.handlers.values() if isinstance(handler, TopicHandlers) else (handler,)
