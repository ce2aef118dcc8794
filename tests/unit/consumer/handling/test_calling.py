"""What a handler's answer comes to: only what is said to be done is acknowledged."""

import asyncio
import gc
import math
import warnings
from dataclasses import replace

import pytest
import structlog

from orderly.config import ConsumerConfig
from orderly.consumer.handling.calling import Caller
from orderly.consumer.hooks import ConsumerHooks
from orderly.consumer.session import now
from orderly.consumer.telling.statistics import ReturnType
from orderly.ordering.lease import Lease
from orderly.ordering.outcomes import Ack, DeadLetter, Fail, Suspend
from orderly.ordering.owned_queue import OwnedQueue
from orderly.ordering.results import FAILURE, ConsumeResult, Disposition, effect_of
from orderly.protocol.heartbeat import Subscription
from tests.support.case_ids import shown
from tests.support.messages import QUEUE, message

SUCCESS, SUSPEND = ConsumeResult.SUCCESS, ConsumeResult.SUSPEND
BATCH = (message(0), message(1), message(2))
NAMED = 1


@pytest.fixture
def held(session):
    owned = OwnedQueue(QUEUE, 0, Lease(now(), 30.0), max_messages=100, max_bytes=10**6)
    return session.add(owned, Subscription("orders"))


@pytest.fixture
def events():
    with structlog.testing.capture_logs() as captured:
        yield captured


class Asks(Exception):
    def __init__(self, seconds):
        self.retry_after = seconds


async def never_awaited():
    return Ack()


FOREIGN = [
    None, True, False, 0, 1, "SUCCESS", "Ack", b"Ack", (), object(), ValueError("returned"),
    Ack, Suspend, [Ack()], ConsumeResult, never_awaited,
]  # fmt: skip


@pytest.fixture(params=["thread", "coroutine"])
def run(session, held, request):
    """Run a handler with BATCH, both ways; a handler that is an exception raises it."""

    def run(answer, *, prepare=lambda context: None, **settings):
        session.config = ConsumerConfig(**settings)

        def handle(messages, context):
            prepare(context)
            if isinstance(answer, BaseException) and not isinstance(answer, Returned):
                raise answer
            return answer.value if isinstance(answer, Returned) else answer

        async def handle_async(messages, context):
            return handle(messages, context)

        if request.param == "thread":
            return Caller(session, handle).call(held, BATCH, "k")
        return asyncio.run(Caller(session, handle_async).call_async(held, BATCH, "k"))

    return run


class Returned(BaseException):
    """A value to return, whatever it is."""

    def __init__(self, value):
        self.value = value


# --- each outcome -------------------------------------------------------------------------------


@pytest.mark.parametrize("auto_commit", [True, False])
@pytest.mark.parametrize(
    ("answer", "result", "wait"),
    [
        *((result, result, None) for result in ConsumeResult),
        (Ack(), SUCCESS, None),
        (Suspend(), SUSPEND, None),
        (Suspend(7.5), SUSPEND, 7.5),
    ],
    ids=str,
)
def test_an_outcome_has_the_effect_of_the_table(answer, result, wait, auto_commit, run):
    called = run(answer, prepare=lambda context: setattr(context, "auto_commit", auto_commit))
    assert called.result is result
    assert called.effect == effect_of(result, auto_commit=auto_commit)
    assert called.wait == wait


def test_the_handler_is_told_what_it_may_ask(run, held):
    held.tenure = object()
    seen = []
    context = run(Ack(), prepare=seen.append).context
    assert seen == [context]
    assert (context.key, context.attempt, context.group) == ("k", 1, "group")
    assert context.tenure is held.tenure
    assert context.max_suspend == ConsumerConfig().longest_suspend


def test_fail_is_a_failure_with_its_reason_in_the_log(run, events):
    called = run(Fail("no stock"))
    assert (called.effect, called.result, called.wait) == (FAILURE, None, None)
    assert called.kind is ReturnType.FAILED
    ((told),) = events
    assert (told["event"], told["reason"]) == ("handler.answered_fail", "no stock")
    assert (told["topic"], told["queue_id"], told["offset"]) == ("orders", 0, 0)


@pytest.mark.parametrize("auto_commit", [True, False])
def test_dead_letter_names_all_that_was_not_named_before(auto_commit, run):
    def prepare(context):
        context.auto_commit = auto_commit
        context.done(BATCH[0])
        context.dead_letter(BATCH[1], "its own reason")

    called = run(DeadLetter("no such account"), prepare=prepare)
    assert called.effect.disposition is Disposition.PUT_BACK
    assert called.context.rejected == {1: "its own reason", 2: "no such account"}
    assert called.context.finished == {0}


def test_dead_letter_leaves_out_what_was_not_tried(run):
    called = run(DeadLetter("r"), prepare=lambda context: context.not_tried(BATCH[2]))
    assert (set(called.context.rejected), called.context.finished) == ({0, 1}, set())
    assert called.result is SUSPEND


def test_a_wait_that_is_not_allowed_here_is_a_failure_and_said_clearly(run, events):
    called = run(Suspend(31))
    assert (called.effect, called.result, called.wait) == (FAILURE, None, None)
    assert events[0]["event"] == "handler.wait_too_long"
    assert "0.01 to 30" in events[0]["error"]


def test_the_answers_wait_stands_over_one_chosen_before(run):
    assert run(Suspend(7), prepare=lambda context: context.suspend(3)).wait == 7
    assert run(Suspend(), prepare=lambda context: context.suspend(3)).wait == 3


def test_an_acknowledgement_waits_for_nothing(run):
    assert run(Ack(), prepare=lambda context: context.suspend(3)).wait is None


# --- anything else is a failure -----------------------------------------------------------------


@pytest.mark.parametrize("value", FOREIGN, ids=shown)
@pytest.mark.parametrize("auto_commit", [True, False])
def test_a_foreign_value_is_never_an_acknowledgement(value, auto_commit, run, events):
    called = run(
        Returned(value), prepare=lambda context: setattr(context, "auto_commit", auto_commit)
    )
    assert (called.effect, called.result) == (FAILURE, None)
    assert called.context.finished == set()
    assert [event["log_level"] for event in events] == ["warning"]


@pytest.mark.parametrize(
    "error",
    [ValueError("no"), SystemExit(0), asyncio.CancelledError(), StopIteration()],
    ids=lambda error: type(error).__name__,
)
def test_a_raise_is_never_an_acknowledgement(error, run, events):
    called = run(error)
    assert (called.effect, called.result, called.wait) == (FAILURE, None, None)
    assert called.kind is ReturnType.EXCEPTION
    assert events[0]["event"] == "handler.raised"
    assert events[0]["exc_info"] is called.answer


def test_a_coroutine_nobody_awaits_is_closed_and_the_log_says_what_to_do(run, events):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(Returned(never_awaited())).effect is FAILURE
        gc.collect()
    assert events[0]["event"] == "handler.returned_coroutine"
    assert events[0]["hint"] == "make it `async def`"


@pytest.mark.parametrize(
    ("asked", "wait"), [(5, 5), (0, 0.01), (10_000, 30), (-1, None), (math.nan, None), (None, None)]
)
def test_an_exceptions_wish_is_heeded_within_what_is_allowed(asked, wait, run):
    called = run(Asks(asked))
    assert (called.effect, called.wait) == (FAILURE, wait)


# --- named messages -----------------------------------------------------------------------------


@pytest.fixture
def call(run):
    """Run a handler that names one message for the dead letters, then answers."""

    def call(answer, *, auto_commit=True, **settings):
        def prepare(context):
            context.auto_commit = auto_commit
            context.dead_letter(BATCH[NAMED], "no such account")

        return run(Returned(answer), prepare=prepare, **settings)

    return call


@pytest.mark.parametrize("answer", [SUCCESS, ConsumeResult.COMMIT, Ack()])
def test_a_named_message_is_not_acknowledged_with_its_batch(answer, call):
    called = call(answer)
    assert called.effect.disposition is Disposition.PUT_BACK
    assert called.context.finished == {0, 2}, "the rest is done, as answered"


def test_nor_by_javas_acknowledging_rollback(call):
    assert call(ConsumeResult.ROLLBACK, java_compat=True).context.finished == {0, 2}


@pytest.mark.parametrize(
    "answer",
    [SUSPEND, ConsumeResult.ROLLBACK, Suspend(), Fail("r"), None, True, 0, "SUCCESS", object()],
    ids=shown,
)
def test_without_an_acknowledgement_the_rest_is_not_done(answer, call):
    called = call(answer)
    assert called.effect.disposition is Disposition.PUT_BACK
    assert called.context.finished == set()


@pytest.mark.parametrize("answer", [SUCCESS, ConsumeResult.COMMIT, Ack()])
def test_under_manual_commit_the_rest_comes_again_for_it_was_not_committed_alone(answer, call):
    called = call(answer, auto_commit=False)
    assert called.effect.disposition is Disposition.PUT_BACK
    assert called.context.finished == set()


def test_a_manual_rollback_is_one_whatever_was_named(call):
    called = call(ConsumeResult.ROLLBACK, auto_commit=False)
    assert called.effect.disposition is Disposition.ROLLBACK


@pytest.fixture
def call_untried(run):
    """The same with a handler that says of one message that it did not try it."""

    def call(answer, *, auto_commit=True, done=()):
        def prepare(context):
            context.auto_commit = auto_commit
            context.not_tried(BATCH[NAMED])
            for each in done:
                context.done(each)

        return run(Returned(answer), prepare=prepare)

    return call


@pytest.mark.parametrize("answer", [SUCCESS, ConsumeResult.COMMIT, Ack()])
def test_what_was_not_tried_is_not_acknowledged_with_its_batch(answer, call_untried):
    called = call_untried(answer)
    assert called.effect.disposition is Disposition.PUT_BACK
    assert (called.context.finished, called.context.untried) == ({0, 2}, {NAMED})


@pytest.mark.parametrize("answer", [SUCCESS, ConsumeResult.COMMIT, Ack()])
def test_nor_is_it_committed_under_manual_commit(answer, call_untried):
    called = call_untried(answer, auto_commit=False)
    assert called.effect.disposition is Disposition.PUT_BACK
    assert called.context.finished == set()


def test_what_was_named_done_as_well_is_done(call_untried):
    assert call_untried(SUCCESS, done=BATCH).effect.disposition is Disposition.COMMIT


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

    assert stopping.run(tidy).result is SUCCESS


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


# --- what the log is not told -------------------------------------------------------------------

SECRET = b"card=4111111111111111 \xff"


@pytest.mark.parametrize("answer", [SECRET, replace(message(0), body=SECRET)], ids=["body", "msg"])
def test_a_foreign_answer_is_told_by_its_type_only(answer, run, events):
    run(Returned(answer))
    assert events[0]["answer"] == type(answer).__name__
    run(Ack(), prepare=lambda context: setattr(context, "auto_commit", answer))
    assert events[1]["value"] == type(answer).__name__
    assert "4111" not in str(events)


def test_a_body_that_is_no_text_is_not_in_the_error(run, events):
    run(Ack(), prepare=lambda _: SECRET.decode())
    assert events[0]["error"].startswith("UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff")
    assert "4111" not in events[0]["error"]
