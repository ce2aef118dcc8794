"""The program of a member: handlers of every style, on threads, in coroutines, in processes.

A handler is written once, as a generator of what it waits for; `Threaded` and `Async` run it. Its
answers are drawn from the seed, the message and how often that was handled, so they are the same
wherever it runs.
"""

import random
from asyncio import CancelledError
from asyncio import sleep as async_sleep

from orderly import Ack, AsyncListener, ConsumeResult, Fail, Listener, Park
from orderly.errors import OrderlyError
from orderly.interruptions import in_thread_of_its_own
from tests.simulation.deaths import ends_processes
from tests.simulation.kept import End

_EXTEND = object()  # what a handler waits for, besides seconds
_STRIDE = 20.0  # seconds of work between two extensions of the lease
_BREATHS = 0.2  # share of quick handlers that let others run
_DEATHS = 2  # calls of a message in which a worker may end
_ROLLBACKS = 2  # calls of a message that may be rolled back
_REJECTED = 0.3  # share of the rollbacks that name a dead letter


class WorkerEnds(BaseException):
    """The worker process of this call ends."""


class MadeUp(Exception):
    """A handler raises."""


class Program:
    """What a member does with its messages.

    Args:
        member: whose handler it is.
    """

    def __init__(self, member):
        self._member = member
        self._world = member.world
        self._scenario = member.world.scenario

    def handler(self):
        """What a consumer is given."""
        awaited = self._scenario.engine == "async"
        style, listener = (Async, AsyncListener) if awaited else (Threaded, Listener)
        if not self._scenario.storm:
            return style(self.steps, self._world.kernel)
        return listener(style(self._heard, self._world.kernel).__call__)

    # --- a call --------------------------------------------------------------------------------

    def steps(self, messages, context):
        """A call; what is wrong with the simulation itself is not to look like a failed handler."""
        try:
            return (yield from self._call(messages, context))
        except (CancelledError, MadeUp):
            raise
        except Exception as error:
            self._world.kernel.fail(error)
            raise

    def _heard(self, message, attempt):
        """A call of a listener's function."""
        yield from self.steps((message,), attempt)
        return Ack()

    def _call(self, messages, context):
        """Work through a batch; the first message that fails ends it."""
        witness = self._world.witness
        call = witness.handler_begins(self._member, messages, context)
        self._world.happened[self._scenario.engine] += 1
        self._world.happened["batch"] += len(messages) > 1
        self._world.happened["keyless"] += messages[0].sharding_key is None
        self._world.happened["replayed"] += context.replayed
        if context.dry_run:
            witness.tried(self._member, messages[0])
            witness.handler_ends(call, End.TRIED)
            return Park("made up") if self._is_poison(messages[0]) else ConsumeResult.SUCCESS
        try:
            failed = yield from self._work_off(call, messages, context)
        except (CancelledError, WorkerEnds) as error:
            self._world.happened["cancelled"] += isinstance(error, CancelledError)
            named = isinstance(error, WorkerEnds) and not self._scenario.plain
            witness.handler_broke_off(call, named=named)
            raise
        if failed is None:
            return self._success(call, messages, context)
        witness.handler_ends(call, End.FAILED if self._scenario.plain else End.FAILED_PARTLY)
        return self._failure(failed, context)

    def _work_off(self, call, messages, context):
        """Returns the message that failed; None: all went well."""
        witness, plain = self._world.witness, self._scenario.plain
        dies_at = self._dies_at(messages) if self._scenario.dying else None
        for place, message in enumerate(messages):
            delivery = witness.delivery(call, message)
            if place == dies_at:
                raise WorkerEnds
            if not (yield from self._work(message, context)):
                if not plain:
                    for later in messages[place + 1 :]:
                        context.not_tried(later)
                return message
            if not plain:
                context.done(message)
            witness.finished(call, message, delivery)
        if dies_at is not None:
            raise WorkerEnds
        return None

    def _dies_at(self, messages):
        """In which message the worker ends; their number: after the last, before the answer."""
        if self._calls(messages[0]) >= _DEATHS:
            return None
        rng = self._drawn("dies", messages[0])
        return rng.randint(0, len(messages)) if rng.random() < self._scenario.dying else None

    def _work(self, message, context):
        """Take a while with a message, and say whether it is done."""
        scenario, nature = self._scenario, self._nature(message)
        slow, failing = nature.random() < scenario.slow, nature.random() < scenario.failing
        slow = slow and self._world.kernel.now < self._world.end  # or it takes too long in the end
        seconds = nature.choice([3.0, 25.0, 75.0]) if slow else scenario.handling
        failures = nature.randint(1, 4) if failing else 0
        calls = self._calls(message)
        if calls > 1 and not scenario.killers:
            seconds = min(seconds, 0.01)
        if scenario.extending and self._drawn("extends", message).random() < scenario.extending:
            strides = 1 + int(seconds // _STRIDE)
            for _ in range(strides):
                yield seconds / strides
                if not (yield from self._extend(message, context)):
                    return False
        elif seconds or self._world.kernel.random.random() < _BREATHS:
            yield seconds
        if self._is_killer(message):
            self._world.witness.crashed(self._member, message, replayed=context.replayed)
            self._member.crash()
        bad = self._is_stuck(message) or self._is_poison(message)
        return calls > failures and not bad

    def _extend(self, message, context):
        """Make sure of the lock before the next step; returns whether that is so."""
        witness, asked = self._world.witness, self._world.kernel.now
        try:
            deadline = yield _EXTEND
        except OrderlyError as error:
            witness.not_extended(self._member, message.queue, error)
            return False
        witness.extended(self._member, message.queue, asked, deadline)
        return True

    # --- answers -------------------------------------------------------------------------------

    def _success(self, call, messages, context):
        """Say that a batch is done: at once, or with a later commit."""
        answer = self._manual_answer(messages)
        if answer is None:
            self._world.witness.handler_ends(call, End.COMMITTED)
            return ConsumeResult.SUCCESS
        context.auto_commit = False
        if answer is ConsumeResult.ROLLBACK and not context.replayed:
            self._reject(messages[-1], context)
        self._world.witness.handler_ends(call, End.of(answer))
        return answer

    def _reject(self, message, context):
        """Name a dead letter, now and then: it is not to come again with what is rolled back."""
        if self._drawn("rejects", message).random() < _REJECTED:
            context.dead_letter(message, "made up")
            self._world.happened["dead letter in a rollback"] += 1
            witness = self._world.witness
            witness.rejected.add(witness.place(self._member.process, message))

    def _manual_answer(self, messages):
        """None: the call is no manual one.

        By its last message a handler commits, mostly; a restart at the end sees to the rest.
        """
        message, drawn = messages[-1], self._drawn("answer", messages[-1])
        by_hand = self._is_by_hand(message) and drawn.random() > 0.15
        if not by_hand:
            return None
        if self._world.kernel.now >= self._world.end:
            return ConsumeResult.COMMIT
        if self._world.witness.is_last_of_lane(message) and drawn.random() < 0.7:
            return ConsumeResult.COMMIT
        back = ConsumeResult.ROLLBACK if self._calls(message) <= _ROLLBACKS else None
        way = drawn.random()
        if way < 0.2:
            return back or ConsumeResult.COMMIT
        return ConsumeResult.COMMIT if way < 0.4 else ConsumeResult.SUCCESS

    def _is_by_hand(self, message):
        """Whether the messages of this key are committed by the handler."""
        manual = self._scenario.manual
        rng = random.Random(f"{self._scenario.seed} manual {message.sharding_key}")
        return bool(manual) and rng.random() < manual

    def _failure(self, message, context):
        """Fail in one of the ways in which a handler can."""
        if self._scenario.storm:
            raise MadeUp
        way = self._nature(message).randrange(4)
        if self._scenario.manual and self._is_by_hand(message):
            context.auto_commit = way % 2 == 0
        if self._is_poison(message):
            return Park("made up") if way < 2 else context.park(message, "made up")
        match way:
            case 0:
                return context.suspend(2.0)
            case 1:
                return Fail("made up")
            case 2 if self._scenario.engine == "async" and message.queue_offset % 2:
                self._world.happened["cancelled within"] += 1
                raise CancelledError  # something that it awaited was cancelled
            case 2:
                raise MadeUp
        return ConsumeResult.SUSPEND

    # --- what is drawn -------------------------------------------------------------------------

    def _calls(self, message):
        witness = self._world.witness
        return witness.calls[witness.place(self._member.process, message)]

    def _drawn(self, what, message):
        """Choices that are others with each call of a message."""
        place = f"{message.queue} {message.queue_offset} {self._calls(message)}"
        return random.Random(f"{self._scenario.seed} {what} {place}")

    def _nature(self, message):
        return random.Random(f"{self._scenario.seed} {message.queue} {message.queue_offset}")

    def _is_killer(self, message):
        """Whether the message ends this process."""
        scenario = self._scenario
        return scenario.killers and not self._is_fixed and ends_processes(scenario, message)

    def _is_poison(self, message):
        """Whether the handler has the message parked; without a key it could not be."""
        scenario = self._scenario
        if not scenario.poison or self._is_fixed or message.sharding_key is None:
            return False
        rng = random.Random(f"{scenario.seed} poison {message.queue} {message.queue_offset}")
        return rng.random() < scenario.poison

    @property
    def _is_fixed(self):
        """Whether a better handler is deployed by now."""
        return self._world.kernel.now >= self._world.began + self._scenario.fixed

    def _is_stuck(self, message):
        """Whether the message's key fails, whatever is done, until a certain time."""
        since = self._world.kernel.now - self._world.began
        return since < self._scenario.stuck and self._scenario.is_stuck(message.sharding_key)


class Threaded:
    """A plain function; it says that it can be tried without a trace."""

    dry_run = True

    def __init__(self, steps, kernel):
        self._steps = steps
        self._kernel = kernel

    def __call__(self, messages, context):
        steps, got = self._steps(messages, context), None
        try:
            wanted = next(steps)
            while True:
                try:
                    got = self._wait(wanted, context)
                except OrderlyError as error:
                    wanted = steps.throw(error)
                else:
                    wanted = steps.send(got)
        except StopIteration as end:
            return end.value

    def _wait(self, wanted, context):
        if wanted is _EXTEND:
            return context.extend()
        return self._kernel.sleep(wanted)


class Async:
    """The same as an `async def`; asked to stop, some go on nevertheless."""

    dry_run = True

    def __init__(self, steps, _):
        self._steps = steps

    async def __call__(self, messages, context):
        steps, got = self._steps(messages, context), None
        try:
            wanted = next(steps)
            while True:
                try:
                    got = await self._wait(wanted, context)
                except OrderlyError as error:
                    wanted = steps.throw(error)
                except CancelledError as error:
                    stubborn = wanted is not _EXTEND and messages[0].queue_offset % 4 == 0
                    wanted = steps.send(None) if stubborn else steps.throw(error)
                else:
                    wanted = steps.send(got)
        except StopIteration as end:
            return end.value

    async def _wait(self, wanted, context):
        if wanted is _EXTEND:
            return await in_thread_of_its_own(context.extend, "extending")
        return await async_sleep(wanted)
