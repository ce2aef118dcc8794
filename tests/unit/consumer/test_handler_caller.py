"""What a handler's answer comes to: only what is said to be done is acknowledged."""

import asyncio
import gc
import warnings

import pytest

from orderly.clock import now
from orderly.config import ConsumerConfig
from orderly.consumer.handler_caller import Caller
from orderly.consumer.hooks import ConsumerHooks
from orderly.consumer.statistics import ReturnType
from orderly.ordering.results import FAILURE, Ack, ConsumeResult, Disposition, Suspend
from tests.support.messages import message

BATCH = (message(0), message(1), message(2))


@pytest.fixture(params=["thread", "coroutine"])
def run(session, held, request):
    """Run a handler with BATCH, both ways."""

    def run(answer, *, prepare=lambda context: None):
        def handle(messages, context):
            prepare(context)
            return answer

        async def handle_async(messages, context):
            return handle(messages, context)

        if request.param == "thread":
            return Caller(session, handle).call(held, BATCH, "k")
        return asyncio.run(Caller(session, handle_async).call_async(held, BATCH, "k"))

    return run


def test_the_handler_is_told_what_it_may_ask(run, held):
    held.ownership = object()
    seen = []
    context = run(Ack(), prepare=seen.append).context
    assert seen == [context]
    assert (context.key, context.attempt, context.group) == ("k", 1, "group")
    assert context.ownership is held.ownership
    assert context.max_suspend == ConsumerConfig().longest_suspend


def test_the_answers_wait_stands_over_one_chosen_before(run):
    assert run(Suspend(7), prepare=lambda context: context.suspend(3)).wait == 7
    assert run(Suspend(), prepare=lambda context: context.suspend(3)).wait == 3


def test_an_acknowledgement_waits_for_nothing(run):
    assert run(Ack(), prepare=lambda context: context.suspend(3)).wait is None


async def never_awaited():
    return Ack()


def test_a_coroutine_nobody_awaits_is_closed(run):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(never_awaited()).effect is FAILURE
        gc.collect()


def test_a_manual_rollback_is_one_whatever_was_named(run):
    def prepare(context):
        context.auto_commit = False
        context.dead_letter(BATCH[1], "no such account")

    called = run(ConsumeResult.ROLLBACK, prepare=prepare)
    assert called.effect.disposition is Disposition.ROLLBACK


def test_what_was_named_untried_and_done_is_done(run):
    def prepare(context):
        context.not_tried(BATCH[1])
        for each in BATCH:
            context.done(each)

    assert run(Ack(), prepare=prepare).effect.disposition is Disposition.COMMIT


# --- coroutines that are stopped ----------------------------------------------------------------


class Stopping:
    """Runs an async handler in a task; `stop` cancels it once the handler waits."""

    def __init__(self, session, held):
        self.session, self.held = session, held
        self.after = []
        hooks = ConsumerHooks(after=lambda messages, context, consumed: self.after.append(consumed))
        session.hooks = hooks

    def run(self, handle):
        async def scenario():
            reached = asyncio.Event()

            async def handler(messages, context):
                reached.set()
                return await handle()

            caller = Caller(self.session, handler)
            task = asyncio.create_task(caller.call_async(self.held, BATCH))
            await reached.wait()
            task.cancel()
            return await asyncio.gather(task, return_exceptions=True)

        (outcome,) = asyncio.run(scenario())
        return outcome


@pytest.fixture
def stopping(session, held):
    return Stopping(session, held)


def test_a_task_that_is_stopped_goes_on_stopping_and_acknowledges_nothing(stopping):
    outcome = stopping.run(lambda: asyncio.sleep(60))
    assert isinstance(outcome, asyncio.CancelledError)
    assert [consumed.kind for consumed in stopping.after] == [ReturnType.EXCEPTION]
    assert stopping.session.statistics.of("orders", now()).calls[ReturnType.SUCCESS] == 0


def test_a_handler_that_finishes_its_work_when_stopped_is_believed(stopping):
    async def tidy():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return Ack()

    assert stopping.run(tidy).result is ConsumeResult.SUCCESS


def test_a_coroutine_that_is_thrown_away_calls_nothing_more(session, held):
    after = []
    session.hooks = ConsumerHooks(after=lambda *args: after.append(args))

    async def handle(messages, context):
        await asyncio.get_running_loop().create_future()

    async def start():
        call = Caller(session, handle).call_async(held, BATCH)
        call.send(None)
        call.close()

    asyncio.run(start())
    assert after == []


def test_a_key_stroke_that_ends_the_program_is_passed_on(session, held):
    async def handle(messages, context):
        raise KeyboardInterrupt

    call = Caller(session, handle).call_async(held, BATCH)
    with pytest.raises(KeyboardInterrupt):
        call.send(None)


# --- hooks --------------------------------------------------------------------------------------


def test_hooks_see_the_same_context_before_and_after(session, held, run):
    seen = []
    session.hooks = ConsumerHooks(
        before=lambda messages, context: seen.append(("before", messages, context)),
        after=lambda messages, context, consumed: seen.append((consumed.answer, messages, context)),
    )
    context = run(Ack()).context
    assert seen == [("before", BATCH, context), (Ack(), BATCH, context)]
