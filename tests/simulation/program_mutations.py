"""Defects of what programs use beside plain handlers, as `mutations` lists them.

Bursts of quick calls, manual commit, coroutines, worker processes, pauses, seeks, extended leases.
"""

from asyncio import CancelledError
from dataclasses import replace

from orderly.clock import now
from orderly.consumer import handler_caller
from orderly.consumer.control import Control
from orderly.consumer.coroutines import Coroutines
from orderly.consumer.engine_watch import EngineWatch
from orderly.consumer.finishing import Finisher
from orderly.consumer.handler_caller import Caller
from orderly.consumer.puller import Puller
from orderly.consumer.rebalancer import Rebalancer
from orderly.consumer.renewal import HeldOwnership
from orderly.consumer.session import Session
from orderly.consumer.workers import Burst
from orderly.errors import LockLost, OrderlyError, WorkerDied
from orderly.ordering.broker_calls import LockQueues
from orderly.ordering.lanes import Lanes
from orderly.ordering.owned_queue import Drop, OwnedQueue
from orderly.ordering.process_queue import ProcessQueue
from orderly.ordering.rebalance_plan import my_share
from orderly.ordering.results import ConsumeResult, Disposition
from orderly.processes import handler as process_handler
from orderly.processes.handler import ProcessHandler

# --- bursts --------------------------------------------------------------------------------------


def go_on_after_a_failure(set_):
    """A burst goes on with the next call even if the last one failed."""
    went_well = Burst._went_well

    def careless(self):
        went_well(self)
        return True

    set_(Burst, "_went_well", careless)


def count_what_is_handed_out(set_):
    """The messages of a burst's later calls count as done when such a call begins."""
    next_call = Burst.next_call

    def hasty(self):
        messages = next_call(self)
        if messages and self._end > self._size:
            self._batch.done = self._end
        return messages

    set_(Burst, "next_call", hasty)


def keep_what_was_not_handed_out(set_):
    """Messages that a burst did not reach count as done."""
    narrow = Lanes.narrow

    def careless(self, batch, kept):
        untried = len(batch.messages) - batch.done - kept
        narrow(self, batch, kept)
        messages = batch.lane.messages
        for message in [messages._pending.popleft() for _ in range(untried)]:
            for counted in (self, messages):
                counted.count -= 1
                counted.size -= message.held_size
            self.pending -= 1

    set_(Lanes, "narrow", careless)


# --- manual commit -------------------------------------------------------------------------------


def commit_what_is_kept(set_):
    """A success under manual commit is committed at once."""
    effect_of = handler_caller.effect_of

    def careless(answer, *, auto_commit, java_compat=False):
        return effect_of(
            answer,
            auto_commit=auto_commit or answer is ConsumeResult.SUCCESS,
            java_compat=java_compat,
        )

    set_(handler_caller, "effect_of", careless)


def commit_the_last_batch_only(set_):
    """A commit covers only its own call's messages; what was kept before stays in hand."""
    finish = Finisher.finish

    def forgetful(self, held, batch, called):
        more = batch.lane.messages.in_hand > len(batch.messages)
        if called.effect.disposition is not Disposition.COMMIT or not more:
            return finish(self, held, batch, called)
        done = {message.queue_offset for message in batch.messages}
        return self._apply(held, batch, Disposition.PUT_BACK, finished=done)

    set_(Finisher, "finish", forgetful)


def roll_back_the_last_batch_only(set_):
    """A rollback covers only its own call's messages; what was kept before is committed later."""
    finish = Lanes.finish

    def forgetful(self, batch, disposition, **options):
        if disposition is Disposition.ROLLBACK:
            disposition = Disposition.PUT_BACK
        return finish(self, batch, disposition, **options)

    set_(Lanes, "finish", forgetful)


def roll_dead_letters_back(set_):
    """A rollback brings back the dead letters that its call named, too."""
    rollback = ProcessQueue.rollback
    set_(ProcessQueue, "rollback", lambda self, finished=(): rollback(self))


def hand_on_what_is_kept_as_done(set_):
    """Messages that a lane keeps count as done when its queue is given up."""
    drop = OwnedQueue.drop

    def careless(self, reason):
        if reason in (Drop.CLOSING, Drop.REVOKED):
            for lane in self.messages.lanes:
                if lane.since is None and lane.messages.in_hand:
                    self.messages.count -= lane.messages.in_hand
                    lane.messages.commit()
                    self.messages._settle(lane)
            self._advance()
        return drop(self, reason)

    set_(OwnedQueue, "drop", careless)


# --- batches, keys, queues -----------------------------------------------------------------------


def finish_what_was_not_tried(set_):
    """Messages of a failed batch that the handler did not look at count as done."""
    put_back = ProcessQueue.put_back

    def careless(self, batch, finished=(), untried=()):
        put_back(self, batch, {*finished, *untried}, untried)

    set_(ProcessQueue, "put_back", careless)


def give_each_message_without_a_key_a_lane(set_):
    """Messages without a key are handled side by side."""
    init = Session.__init__

    def without_order(self, *args, **options):
        init(self, *args, **options)
        self.key = lambda message: message.sharding_key or ("none", message.queue_offset)

    set_(Session, "__init__", without_order)


def share_the_first_queues_only(set_):
    """Queues that are added to a topic later are never seen."""
    look = Rebalancer._look

    def old(self, topic):
        outlook = look(self, topic)
        if outlook is None:
            return None
        known = vars(self).setdefault("_first_queues", {})
        queues = known.setdefault(topic, outlook.queues)
        me = self._session.client.client_id
        share = my_share(me, queues, outlook.members, self._allocate)
        return replace(outlook, queues=queues, share=share)

    set_(Rebalancer, "_look", old)


def go_on_although_the_broker_reset(set_):
    """When a broker reports an offset reset, only the next pull changes."""
    failed = Puller._failed

    def refused(self, held, reply):
        with held.lock:
            held.owned.next_pull = reply.next_offset
        failed(self, held, OrderlyError("pull again"))

    set_(Puller, "_refused", refused)


# --- coroutines, worker processes ----------------------------------------------------------------


def take_any_coroutine_for_a_success(set_):
    """The answer or exception of an async handler is ignored."""

    async def call_async(self, held, batch, key=None, mode=handler_caller.Mode.LIVE):
        started = self.begin(held, batch, key, mode)
        try:
            await self._handler(started.messages, started.context)
        except Exception:
            return self.conclude(started, ConsumeResult.SUCCESS)
        return self.conclude(started, ConsumeResult.SUCCESS)

    set_(Caller, "call_async", call_async)


def take_a_cancelled_call_for_a_success(set_):
    """A handler counts as done if something that it awaited was cancelled."""
    conclude = Caller.conclude

    def careless(self, started, answer):
        if isinstance(answer, CancelledError):
            answer = ConsumeResult.SUCCESS
        return conclude(self, started, answer)

    set_(Caller, "conclude", careless)


def forget_a_cancelled_run(set_):
    """A run that was cancelled stays in work for ever."""
    ended = Coroutines._ended

    def forgetful(self, task):
        if task.cancelled():
            self._tasks[task].claimed = False
        ended(self, task)

    set_(Coroutines, "_ended", forgetful)


def give_up_beside_a_handler(set_):
    """A member without an engine unlocks queues whose handler still runs."""
    idle = OwnedQueue.idle.fget
    set_(OwnedQueue, "idle", property(lambda self: self.dropped is Drop.STANDING or idle(self)))


def stay_away(set_):
    """A member whose event loop runs again does not join the group again."""
    set_(EngineWatch, "_goes_on", lambda self: None)


def take_a_dead_worker_for_a_success(set_):
    """A call whose worker process died counts as done."""
    call = ProcessHandler.__call__

    def careless(self, messages, context):
        try:
            return call(self, messages, context)
        except WorkerDied:
            return ConsumeResult.SUCCESS

    set_(ProcessHandler, "__call__", careless)


def forget_what_a_dead_worker_had_named(set_):
    """What was named done before a worker process died comes again."""
    set_(process_handler, "name_untried", lambda messages, context: context.finished.clear())


def take_all_that_a_dead_worker_had_for_named(set_):
    """What a worker process had in hand when it died counts as named done."""

    def generous(messages, context):
        context.finished.update(message.queue_offset for message in messages)

    set_(process_handler, "name_untried", generous)


# --- pauses, seeks, leases -----------------------------------------------------------------------


def hand_out_what_is_paused(set_):
    """A pause stops pulling only."""
    take = OwnedQueue.take

    def careless(self, size, now, calls=1, **how):
        paused, self.paused = self.paused, False
        try:
            return take(self, size, now, calls, **how)
        finally:
            self.paused = paused

    set_(OwnedQueue, "take", careless)


def forget_pauses_over_a_rebalance(set_):
    """A queue that is paused and taken again is handed out."""
    add = Session.add

    def forgetful(self, owned, subscription, memory=None):
        paused, self.paused = self.paused, frozenset()
        try:
            return add(self, owned, subscription, memory)
        finally:
            self.paused = paused

    set_(Session, "add", forgetful)


def never_seek_back(set_):
    """A seek only goes forward."""
    _limit_seeks(set_, lambda owned, offset: max(offset, owned.offset))


def never_seek_on(set_):
    """A seek only goes back."""
    _limit_seeks(set_, lambda owned, offset: min(offset, owned.offset))


def _limit_seeks(set_, limit):
    seek = Control.seek

    def limited(self, queue, position):
        held = self._session.find(queue)
        if held is not None:
            position = limit(held.owned, position)
        return seek(self, queue, position)

    set_(Control, "seek", limited)


def seek_and_keep_the_cache(set_):
    """A seek moves the offset, but cached messages are still handed out."""
    restart_at = OwnedQueue.restart_at

    def careless(self, offset, reason):
        if reason is not Drop.MOVED or self.dropped is not None:
            return restart_at(self, offset, reason)
        self.offset = offset
        return True

    set_(OwnedQueue, "restart_at", careless)


def extend_without_asking(set_):
    """An extended lease counts from now again, but the broker is not asked."""

    def extend(self):
        with self._held.lock:
            self._held.owned.lease.renew(now())
        return self.deadline

    set_(HeldOwnership, "extend", extend)


def take_silence_for_an_extension(set_):
    """A broker's silence counts as an extended lease."""
    extend = HeldOwnership.extend

    def hopeful(self):
        try:
            return extend(self)
        except LockLost:
            raise
        except OrderlyError:
            with self._held.lock:
                self._held.owned.lease.renew(now())
            return self.deadline

    set_(HeldOwnership, "extend", hopeful)


def extend_what_is_lost(set_):
    """A lease that was lost is extended, if the broker grants the lock again."""
    extend = HeldOwnership.extend

    def reviving(self):
        held, queue = self._held, self._held.queue
        try:
            return extend(self)
        except LockLost:
            asked_at = now()
            if queue not in self._session.perform(LockQueues(queue.broker_name, (queue,))):
                raise
            lease = held.owned.lease
            held.owned.lease = type(lease)(asked_at, lease._trust)
            return self.deadline

    set_(HeldOwnership, "extend", reviving)


PROGRAM_MUTATIONS = (
    go_on_after_a_failure,
    count_what_is_handed_out,
    keep_what_was_not_handed_out,
    commit_what_is_kept,
    commit_the_last_batch_only,
    roll_back_the_last_batch_only,
    roll_dead_letters_back,
    hand_on_what_is_kept_as_done,
    finish_what_was_not_tried,
    give_each_message_without_a_key_a_lane,
    share_the_first_queues_only,
    go_on_although_the_broker_reset,
    take_any_coroutine_for_a_success,
    take_a_cancelled_call_for_a_success,
    forget_a_cancelled_run,
    give_up_beside_a_handler,
    stay_away,
    take_a_dead_worker_for_a_success,
    forget_what_a_dead_worker_had_named,
    take_all_that_a_dead_worker_had_for_named,
    hand_out_what_is_paused,
    forget_pauses_over_a_rebalance,
    never_seek_back,
    never_seek_on,
    seek_and_keep_the_cache,
    extend_without_asking,
    take_silence_for_an_extension,
    extend_what_is_lost,
)
