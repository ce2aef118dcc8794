"""Sees what members do and what reaches the brokers, and compares it with the truth at once.

A member is excused only for what it cannot know: a broker that restarted forgot its lock, and no
renewal was refused yet. Then its handlers may overlap with another member's; it may not commit.
"""

import functools
import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace

from orderly import MessageQueue
from orderly.errors import LockLost
from orderly.protocol.ext import from_ext
from orderly.protocol.offsets import UpdateConsumerOffset
from orderly.protocol.properties import decode_properties
from orderly.protocol.pull import PullMessage
from orderly.protocol.send import SendMessage
from orderly.protocol.state_record import Confirm, Entry
from orderly.protocol.statistics import GetTopicStats
from orderly.testing.fake.store import ReadStatus
from tests.simulation.commits import Commits
from tests.simulation.grants import Grants, queues_in
from tests.simulation.kept import End, Kept
from tests.simulation.ledger import Ledger, record_in
from tests.simulation.pace import Pace
from tests.simulation.parked import PARK
from tests.simulation.repeats import Repeats
from tests.simulation.scenario import (
    ACTS,
    COMMIT,
    COPIES,
    ENDS,
    LOCK,
    PULL,
    QUERY,
    SEND,
    SETTLED,
    UNLOCK,
)
from tests.simulation.threads import EPOCH
from tests.simulation.truth import BROKE_DOWN, TOPIC, WANTED, Broken

_CALM = {  # after these nothing is lost on the way
    "kill", "kill at", "close", "grow", "program pause", "key pause", *ACTS, *COPIES,
}  # fmt: skip
_FALSE_ALARMS = (  # unless an operator has just reset the queue's offset
    "offset.set_by_another",
    "state.damaged",
    "message.deleted",
)
_STILL = 130.0  # seconds; what cannot be read is tried again after 60 at most
_IN_HAND = 1.0  # seconds within which a message that was taken before a pause is handed out
_SOON = 30.0  # seconds within which a key's message is handled that waits for nobody but its own
_IN_TIME = 1.0  # seconds within which an answer comes, so that somebody surely waits for it
_DEFECTS = ("run.failed", "periodic_work.failed")


@dataclass(eq=False)
class Running:
    """A handler at work; on a lane: all of the queue, or one key of it."""

    member: object
    queue: MessageQueue
    lane: object
    process: object
    task: object
    replayed: bool
    began: float
    done: list = field(default_factory=list)
    homes: dict = field(default_factory=dict)


@dataclass(eq=False)
class Delivery:
    """One message in one call of a handler; as the oracle's Delivered, but still open.

    `ended` is how many events there were when the handler was done with it.
    """

    key: str | None
    lane: tuple
    id: tuple
    excused: bool
    process: object
    at: float
    success: bool = False
    ended: int | None = None


def _surely(look):
    """What goes wrong in a look ends the run, where the library would take it for a handler's."""

    @functools.wraps(look)
    def surely(self, *args, **options):
        try:
            return look(self, *args, **options)
        except Exception as error:
            self._kernel.fail(error)
            raise

    return surely


class Witness:
    """Told of each request, answer and handler call.

    Args:
        world: has `kernel`, `network`, `truth`, `strikes`, `members` and `happened`.

    Attributes:
        events: Delivery and commits.Commit, in order.
        commits: what is committed, and reset.
        calls: how often each (queue, offset) was handled.
        latest: by (queue, offset), its last Delivery.
        rejected: (queue, offset) of messages that a call named dead letters as it rolled back.
    """

    def __init__(self, world):
        self._world = world
        self._kernel = world.kernel
        self._truth = world.truth
        self._calm = all(fault.kind in _CALM for fault in world.scenario.faults)
        self._running = []
        self._finished_by = defaultdict(set)  # by (process, queue), since it was taken
        self._places = {}  # by message id: of its copies in the last batch that had it
        self.rejected = set()
        self._dead = {}  # by request to store a dead letter: (process, place), and when it was sent
        self._known_dead = set()  # (process, place): it got the answer in time
        self._last_calls = {}  # by lane, the last call of a handler and what it has handled
        self._homes = {}  # by process, message and offset: where that is counted
        self._generations = world.generations
        self._by_key = dict(world.scenario.settings)["order"] == "key"
        self._grants = Grants(world)
        self.ledger = Ledger(world)
        self.kept = Kept(world)
        self.repeats = Repeats(world)
        self._paused_at = {}  # by process: when, and which queues the topic had then
        self._keys_paused_at = {}  # by process and key
        self._pace = Pace(world)
        self._lost = set()  # (process, queue), as the program was told
        self._sought = {}  # by (process, queue), since when, and where from on it goes on
        self.latest = {}
        self.events = []
        self.commits = Commits(world, self.ledger, self.events)
        self.calls = Counter()
        self.stopped = {}  # by queue, when a member said last that it cannot take it
        if world.scenario.forged:
            self._truth.covered = lambda queue, offset: True
        world.network.sending = self._leaves
        world.network.watch = self._arrives
        world.network.answered = self._answered
        world.network.heard = self._heard_answer

    # --- requests ------------------------------------------------------------------------------

    def _of(self, link):
        for member in self._world.members:
            if member.process is link.process:
                return member
        return None

    def _leaves(self, link, command):
        """A member sends a commit: nobody else may own the queue at that moment."""
        if (member := self._of(link)) is None:
            return
        self._spring(member, command, leaving=True)
        if command.code == LOCK:
            self._grants.asked(link, command)
        if command.code == SEND and (place := self._dead_letter(command)) is not None:
            request = link.number, command.request_id
            self._dead[request] = (member.process, place), self._kernel.now
        if command.code != COMMIT:
            return
        header, queue = self._commit(link, command)
        owner = self._truth.owner(queue)
        if owner not in (None, member.client_id):
            offset = header.commit_offset
            text = f"{member}: {offset} in {queue}, of {owner}"
            self._kernel.fail(Broken("commit without the lock", text))

    def _arrives(self, link, command):
        """A request is at its server, before it is carried out."""
        if command.is_response or (member := self._of(link)) is None:
            return
        self._spring(member, command, leaving=False)
        if command.code == ENDS and from_ext(GetTopicStats, command.ext).topic == TOPIC:
            self.commits.looked(member.process)
        if command.code == COMMIT:
            header, queue = self._commit(link, command)
            counts = self.commits.arrives(member, header, queue)
            if counts and self._grants.committed(member.process, queue):
                self._excuse_robbers(member.process, queue)
                self.ledger.robbers_do_not_count(queue, header.commit_offset)
        elif command.code == UNLOCK:
            self._check_unlock(member, queues_in(command.body, "mqSet"))
        elif command.code == SEND:
            self._note_dead_letter(member, command)

    def _excuse_robbers(self, process, queue):
        """Others had the queue since the process took it, and nothing of what they did counts."""
        began = self.ledger.ownerships.get((process, queue), math.inf)
        for event in self.events:
            theirs = isinstance(event, Delivery) and event.id[0] == queue
            if theirs and event.process is not process and event.at > began:
                event.excused = True

    def _spring(self, member, command, *, leaving):
        if not self._world.strikes.armed:
            return
        if command.code in (COMMIT, QUERY) or (command.code == SEND and _is_kept(command)):
            self._world.strikes.spring(member, command.code, leaving=leaving)

    def _commit(self, link, command):
        header = from_ext(UpdateConsumerOffset, command.ext)
        broker = self._world.network.servers[link.address]
        return header, MessageQueue(header.topic, broker, header.queue_id)

    def _check_unlock(self, member, queues):
        self._world.note(member, "unlocks", *queues)
        for queue in queues:
            self._grants.unlocked(member.process, queue)
            if self._calm and self._truth.owner(queue) == member.client_id:
                done = self._finished_by[member.process, queue]
                left = [o for o in done if not self.ledger.is_on_record(queue, o)]
                if left:
                    text = f"{member} unlocks {queue}, {sorted(left)} are done and not on record"
                    raise Broken("unlock without saving", text)
        for running in self._running:
            if running.member is member and running.queue in queues:
                text = f"{member} unlocks {running.queue} beside its running handler"
                raise Broken("unlock beside a handler", text)

    def _answered(self, link, command, outgoing):
        """A broker grants locks and refuses others, and stores records and parked messages."""
        if not outgoing:
            return
        forged = self._world.scenario.forged
        member, reply = self._of(link), outgoing[-1].command
        if command.code == SEND and not reply.code:
            if forged:  # what is stored is not judged; that members park is seen all the same
                self._world.happened["parked"] += from_ext(SendMessage, command.ext).topic == PARK
            else:
                self._check_record(member, link, command, int(reply.ext["queueOffset"]))
        elif command.code == LOCK and member is not None:
            self._grants.answered(member, link, command, reply)
        elif command.code == PULL and reply.remark == ReadStatus.OFFSET_RESET.value:
            pull = from_ext(PullMessage, command.ext)
            broker = self._world.network.servers[link.address]
            self.commits.told(link.process, MessageQueue(pull.topic, broker, pull.queue_id))

    def _check_record(self, member, link, command, offset):
        header = from_ext(SendMessage, command.ext)
        if header.topic == TOPIC:
            return
        broker, ledger = self._world.network.servers[link.address], self.ledger
        queue = MessageQueue(TOPIC, broker, header.queue_id)
        if header.topic == PARK:
            parked = ledger.parked.stored(member, broker, header.queue_id, offset)
            if parked is not None:
                ledger.deaths.check_blame(queue, parked)
                if self._grants.rightful(member, queue):
                    self.repeats.check(member, (queue, parked.offset), "parked")
        elif (record := record_in(command)) is not None:
            judged = not self.commits.ignored(queue)
            if isinstance(record, Confirm):
                self.commits.confirmed(member.process, queue)
            elif isinstance(record, Entry):
                self.commits.goes_on(member.process, queue)
            if ledger.stored(member, queue, record, offset, judged=judged):
                self.commits.parked_changed(queue)
            if isinstance(record, Entry):
                self.commits.recorded(queue)

    def _heard_answer(self, link, command):
        """A member gets an answer: it knows that it has a lock, or that a dead letter is stored."""
        self._grants.heard(link, command)
        if command.is_response and (link.number, command.request_id) in self._dead:
            dead, asked_at = self._dead.pop((link.number, command.request_id))
            in_time = max(self._kernel.now, dead[0].paused_until) - asked_at < _IN_TIME
            if in_time and not command.code:
                self._known_dead.add(dead)

    def _dead_letter(self, command):
        """The place of a message that is sent as a dead letter, or None."""
        header = from_ext(SendMessage, command.ext)
        if not header.topic.startswith("%RETRY%"):
            return None
        copies = self._places[decode_properties(header.properties.encode())["UNIQ_KEY"]]
        return copies[0] if len(copies) == 1 else self._failed_of(copies)

    def _failed_of(self, copies):
        """Which copy of a message failed, of those that its sender's retry brought into a batch."""
        heard = [place for place in copies if place in self.latest and self._heard(place)]
        if heard and not self._world.scenario.plain:
            return heard[-1]
        unsettled = [(q, o) for q, o in copies if o not in self._truth.finished[q]]
        return (unsettled or copies)[0]

    def _note_dead_letter(self, member, command):
        if (place := self._dead_letter(command)) is not None:
            queue, offset = place
            self._world.note("dead letter", queue, offset)
            self._world.happened["dead letter"] += 1
            self._truth.finished[queue].add(offset)
            delivery = self.latest.get(place)
            ahead = self.kept.before(place) or place in self.rejected
            if delivery is None or ahead or not self._heard(place):
                # Not handled itself, for it failed with its batch; or done ahead of what is kept,
                # or comes again.
                self._truth.skipped[queue].add(offset)
                self.ledger.parked.unheard.add(place)
                if delivery is not None:
                    delivery.success = True
            else:
                delivery.success = True
                excused = self._grants.excuses(member.process, queue)
                done = {"excused": excused, "ended": len(self.events), "process": member.process}
                self.events.append(replace(delivery, **done))  # in its turn, in any case

    def _heard(self, place):
        """Whether a message was in the last call of its lane, up to where that failed."""
        lane = self.latest[place].lane
        return place in self._last_calls.get(lane, (None, ()))[1]

    def archive(self, former):
        """The topic is deleted: what happened in its queues has a name of the past from now on.

        Args:
            former: that name, by queue.
        """

        def moved(place):
            return (former.get(place[0], place[0]), *place[1:])

        self.calls = Counter({moved(place): count for place, count in self.calls.items()})
        self.latest = {moved(place): delivery for place, delivery in self.latest.items()}
        self._places = {unique: list(map(moved, each)) for unique, each in self._places.items()}
        self.rejected = {moved(place) for place in self.rejected}
        self._known_dead = {(process, moved(place)) for process, place in self._known_dead}
        self._dead = {r: ((p, moved(place)), at) for r, ((p, place), at) in self._dead.items()}
        self._homes = {known: former.get(home, home) for known, home in self._homes.items()}
        for event in self.events:
            if isinstance(event, Delivery):
                event.id, event.lane = moved(event.id), moved(event.lane)
        for call in self._running:
            call.lane = moved(call.lane)
            call.homes = {offset: former.get(home, home) for offset, home in call.homes.items()}
        for process, queue in [p for p in self._finished_by if p[1] in former]:
            done = self._finished_by.pop((process, queue))
            self._finished_by[process, former[queue]] = done
        self.commits.archive(former)
        self.repeats.begin_anew(former)

    def has_finished(self, process, place):
        """Whether a process is done with a message, since it took the queue."""
        return place[1] in self._finished_by.get((process, place[0]), ())

    def has_seen(self, process, queue):
        """Whether a process surely knows a message of a queue, of when it took it last."""
        done = bool(self._finished_by.get((process, queue)))
        return done or self.commits.has_passed(process, queue)

    # --- handlers ------------------------------------------------------------------------------

    @_surely
    def handler_begins(self, member, messages, context):
        """A handler is called; returns the record of this call."""
        queue = context.message_queue
        for message in messages:
            home = self._generations.home(member.process, message)
            self._homes[member.process, message.message_id, message.queue_offset] = home
        lane = self.lane(messages[0], self.place(member.process, messages[0])[0])
        owner = self._truth.owner(queue)
        if owner != member.client_id and not self._grants.could_not_know(member, queue):
            text = f"{member} handles {queue}, whose lock belongs to {owner}"
            self._kernel.fail(Broken("handling without the lock", text))
        for other in self._running:
            beside = other.lane == lane
            if beside and not self._grants.may_overlap(member, other.process, queue):
                text = f"{member} handles {lane} beside {other.member}"
                self._kernel.fail(Broken("two handlers", text))
        if any(self.lane(message)[1:] != lane[1:] for message in messages):
            self._kernel.fail(Broken("mixed keys", f"{member} handles a batch of several"))
        if self._grants.rightful(member, queue) and not self._world.scenario.forged:
            self._checked(self.ledger.check_token, member, queue, context.token)
        self._check_pause(member, queue, context)
        self._check_key_pause(member, messages[0], context)
        self._checked(self._pace.begins, member, lane, len(messages))
        self._check_seek(member, queue, messages[0])
        self._check_dead(member, queue, messages, context)
        self._check_storm(member, messages[0])
        task = self._kernel.current
        began = self._kernel.now
        call = Running(member, queue, lane, member.process, task, context.replayed, began)
        copies = defaultdict(list)
        for message in messages:
            copies[message.message_id].append(self.place(member.process, message))
        self._places |= copies
        self._running.append(call)
        return call

    def _check_pause(self, member, queue, context):
        """Nothing is handed out once a pause is under way; what had been taken still comes."""
        began, queues = self._paused_at.get(member.process, (None, ()))
        if queue not in queues or context.replayed or self._world.scenario.killers:
            return
        if self._kernel.now > max(began, member.process.paused_until) + _IN_HAND:
            self._kernel.fail(Broken("handled while paused", f"{member}: {queue}"))

    def _check_key_pause(self, member, message, context):
        """Nothing of a paused key is handed out, but what had been taken before."""
        began = self._keys_paused_at.get((member.process, message.sharding_key))
        if began is None or context.replayed or self._world.scenario.killers:
            return
        if self._kernel.now > max(began, member.process.paused_until) + _IN_HAND:
            text = f"{member}: {message.sharding_key}"
            self._kernel.fail(Broken("handled while its key was paused", text))

    def _check_content(self, message, home):
        """A handler gets what was sent, on whatever way it comes."""
        if home.topic != TOPIC:
            return
        sent = self._truth.message(home, message.queue_offset)
        got, stored = (
            (type(each), each.flag, each.raw_body, each.message_id) for each in (message, sent)
        )
        if got != stored:
            text = f"{message.queue_offset} of {home}: {got}, sent was {stored}"
            self._kernel.fail(Broken("another content", text))

    def _check_dead(self, member, queue, messages, context):
        """A member that knows that a dead letter is stored does not handle that message again."""
        for message in () if context.replayed or queue in self.commits.reset else messages:
            if (member.process, self.place(member.process, message)) in self._known_dead:
                text = f"{member}: {message.queue_offset} of {queue}"
                self._kernel.fail(Broken("handled after its dead letter", text))

    def place(self, process, message):
        """Where a message that a member handles is counted: (queue, offset)."""
        known = process, message.message_id, message.queue_offset
        return self._homes.get(known, message.queue), message.queue_offset

    def lane(self, message, queue=None):
        """What is in order: all of a queue, or those of one key in it."""
        queue = queue or message.queue
        return (queue, message.sharding_key) if self._by_key else (queue,)

    def _checked(self, check, *arguments, **options):
        """Do a check on a member's own task, where the library would catch what it raises."""
        try:
            check(*arguments, **options)
        except Broken as broken:
            self._kernel.fail(broken)

    @_surely
    def handler_ends(self, call, end):
        """A handler is about to return; only now the library can know what it has done."""
        if call in self._running:  # not those of a member that was killed
            self._running.remove(call)
        for offset in self.kept.ends(call, end):
            home = call.homes.get(offset, call.queue)
            self._truth.finished[home].add(offset)
            self._finished_by[call.process, home].add(offset)
            self._generations.finished(call.process, home, call.queue)
            self.ledger.finished(call.process, (home, offset))

    def handler_broke_off(self, call, *, named):
        """A handler was cancelled, or its worker process ended: it gives no answer.

        Args:
            call: of that handler.
            named: what it is done with counts: it was named done, to a parent that lives on.
        """
        self._world.note(call.member, "breaks off a call of", call.queue)
        if named:
            self.handler_ends(call, End.FAILED_PARTLY)
        else:
            self._running.remove(call)

    def worker_killed(self, task):
        """A worker process was killed, with the handler that runs on `task`, if there is one."""
        for call in [call for call in self._running if call.task is task]:
            self.handler_broke_off(call, named=not self._world.scenario.plain)

    def is_last_of_lane(self, message):
        """Whether nothing that is wanted is stored behind a message, in its lane."""
        queue, lane, truth = message.queue, self.lane(message), self._truth
        behind = range(message.queue_offset + 1, truth.log(queue).max_offset)
        return not any(
            self.lane(truth.message(queue, o)) == lane
            for o in behind
            if truth.wanted(queue, o) and not truth.passed(queue, o)
        )

    # --- what the program does -----------------------------------------------------------------

    def paused(self, member):
        """A member has paused all queues."""
        self._world.note(member, "pauses")
        self._world.happened["paused"] += 1
        self._paused_at[member.process] = self._kernel.now, self._truth.names()

    def resumed(self, member):
        """A member ends its pause."""
        self._world.note(member, "resumes")
        self._paused_at.pop(member.process, None)

    def key_paused(self, member, key):
        """A member has paused a key."""
        self._world.note(member, "pauses key", key)
        self._world.happened["key paused"] += 1
        self._keys_paused_at[member.process, key] = self._kernel.now

    def key_resumed(self, member, key):
        """A member lets a key go on."""
        self._world.note(member, "resumes key", key)
        self._keys_paused_at.pop((member.process, key), None)

    def sought(self, member, queue, target):
        """A member goes on from another offset."""
        stored = self._truth.stored(queue)
        self._world.note(member, "seeks", target, "of", queue, "from", stored)
        if target != stored:
            self._world.happened["seek back" if target < stored else "seek on"] += 1
        held = member.consumer._session.find(queue)
        given_up = held is None or held.owned.dropped is not None
        self._forget_dead(member, queue)
        self.commits.was_sought(queue, target, given_up=given_up)
        self._sought[member.process, queue] = self._kernel.now, target
        if given_up:  # else it is there already, and nothing changes
            self.repeats.sought(member.process, queue, target)

    def _forget_dead(self, member, queue):
        mine = {d for d in self._known_dead if d[0] is member.process and d[1][0] == queue}
        self._known_dead -= mine

    def _check_seek(self, member, queue, message):
        """What a seek passed over is not handed out, but for what had been taken before."""
        at, target = self._sought.get((member.process, queue), (math.inf, 0))
        passed_over = message.queue_offset < target and self._kernel.now > at + _IN_HAND
        if passed_over and self.commits.strict:
            text = f"{member}: {message.queue_offset} of {queue}, from where it went to {target}"
            self._kernel.fail(Broken("handled after a seek", text))

    def _check_storm(self, member, message):
        """A key that never failed goes on, however many others fail."""
        scenario, began = self._world.scenario, self._world.began
        if not scenario.storm or scenario.faults or scenario.is_stuck(message.sharding_key):
            return
        due = max(message.store_time - EPOCH, began + SETTLED) + _SOON
        if self._kernel.now > due:
            text = f"{member}: {message.sharding_key} {self._kernel.now - due:.1f} s after {_SOON}"
            self._kernel.fail(Broken("held up", text))

    @_surely
    def extended(self, member, queue, asked, deadline):
        """A handler has renewed the lock: nobody else can get it before the deadline."""
        self._world.happened["extend"] += 1
        if (member.process, queue) in self._lost:
            text = f"{member} has {queue} back, of which it was told that it is lost"
            self._kernel.fail(Broken("extended in vain", text))
        self._checked(self._grants.check_extension, member, queue, asked, deadline)

    @_surely
    def not_extended(self, member, queue, error):
        """A handler could not renew the lock; told that it is lost, there is a reason."""
        self._world.note(member, "cannot extend:", type(error).__name__)
        lost = isinstance(error, LockLost)
        self._world.happened["extend refused" if lost else "extend unanswered"] += 1
        if lost:
            self._check_loss(member, queue)

    @_surely
    def taken(self, member, queues):
        """A member begins to own queues."""
        for queue in queues:
            self._finished_by.pop((member.process, queue), None)
            self._lost.discard((member.process, queue))
            self._forget_dead(member, queue)
            self._world.happened["paused and taken"] += member.process in self._paused_at
            paused = any(process is member.process for process, _ in self._keys_paused_at)
            self._world.happened["key paused and taken"] += paused
            self._pace.taken(member, queue)
            self.kept.forget(member.process, queue)
            self._grants.taken(member.process, queue)
            self._generations.taken(member.process, queue)
            self.commits.taken(member.process, queue)
            self.ledger.taken(member.process, queue)

    @_surely
    def lost(self, member, queues):
        """A member was told that queues are no longer its own: there is a reason."""
        for queue in queues:
            self._lost.add((member.process, queue))
            self._check_loss(member, queue)

    def _check_loss(self, member, queue):
        began = self.ledger.ownerships.get((member.process, queue), math.inf)
        undoubted = self._grants.undoubted(member, queue, began)
        undoubted = undoubted and not self._world.scenario.forged
        anew = self._generations.ended_at > began
        anew = anew or self.ledger.lost_records_since(queue, began)
        if undoubted and not anew and queue not in self.commits.reset:
            text = f"{member} takes {queue} for lost, which is its own"
            self._kernel.fail(Broken("lost for nothing", text))

    @_surely
    def alarmed(self, event, fields):
        """The library warns people: it is true."""
        if event in _DEFECTS:
            self._kernel.fail(Broken(BROKE_DOWN, f"{event}: {fields}"))
        if event == "queue.start_unknown":
            place = fields["topic"], fields["broker"], fields["queue_id"]
            self.stopped[MessageQueue(*place)] = self._kernel.now
        if event not in _FALSE_ALARMS or self._world.scenario.forged:
            return
        queue = MessageQueue(fields["topic"], fields["broker"], fields["queue_id"])
        excused = queue in self.commits.reset or self._generations.changed
        excused = excused or self.ledger.lost_records_since(queue, -math.inf)
        if excused or self._grants.hid(queue):
            self._world.happened["alarm, excused"] += 1
        else:
            self._kernel.fail(Broken("false alarm", f"{event}: {fields}"))

    @_surely
    def left_out(self, fields):
        """A member leaves a repeat out, as it tells."""
        queue = MessageQueue(fields["topic"], fields["broker"], fields["queue_id"])
        place = queue, fields["offset"]
        self._checked(self.repeats.check_left_out, self._kernel.current.process, place)

    def told_of_stops(self):
        """Whether members still say of each queue that is left that they cannot take it."""
        since = self._kernel.now - _STILL
        truth = self._truth
        left = [q for q in truth.queues() if not (truth.consumed(q) and truth.owner(q))]
        return bool(left) and all(self.stopped.get(queue, 0.0) > since for queue in left)

    def died(self, member, *, clean):
        """A process has ended, with its handlers; clean: it had given everything back."""
        self.ledger.died(member.process, clean=clean)
        self.kept.forget(member.process)
        self._running = [call for call in self._running if call.member is not member]

    @_surely
    def tried(self, member, message):
        """A parked message is tried without a trace."""
        self._world.note(member, "tries", message.queue_offset, "of", message.queue)
        if self._grants.rightful(member, message.queue):
            check = self.ledger.parked.check_replayed
            self._checked(check, member, message.queue, message.queue_offset)

    @_surely
    def delivery(self, call, message):
        """A message is being handled; returns the note, open until it is done."""
        member, replayed = call.member, call.replayed
        queue, place = message.queue, self.place(member.process, message)
        home, offset = place
        call.homes[offset] = home
        self._check_content(message, home)
        self._world.note(member, "replays" if replayed else "handles", offset, "of", home)
        self.calls[place] += 1
        in_hand = self.kept.handled(call, offset)
        forged = self._world.scenario.forged  # what is on record may then come again
        if self._grants.rightful(member, queue) and home == queue and not forged:
            self._check_delivery(call, place)
            if in_hand:
                text = f"{member}: {offset} of {queue}, which it keeps in hand"
                self._kernel.fail(Broken("kept and repeated", text))
        sought, _ = self._sought.get((member.process, home), (-math.inf, 0))
        finishes = call.began <= sought  # its batch, which it was given before the program's seek
        if finishes and offset in self._truth.skipped[home]:  # the others do not wait for it
            self.ledger.parked.unheard.add(place)
        excused = finishes or self._grants.excuses(member.process, queue)
        lane, now = self.lane(message, home), self._kernel.now
        delivery = Delivery(message.sharding_key, lane, place, excused, member.process, now)
        self.latest[place] = delivery
        if self._last_calls.get(delivery.lane, (None,))[0] is not call:
            self._last_calls[delivery.lane] = call, set()
        self._last_calls[delivery.lane][1].add(place)
        self.events.append(delivery)
        if message.tags != WANTED and self._world.scenario.unwanted:
            self._kernel.fail(Broken("filter", f"{offset} of {queue} was not subscribed to"))
        return delivery

    def _check_delivery(self, call, place):
        member, replayed = call.member, call.replayed
        if self.has_finished(member.process, place):
            text = f"{member}: {place[1]} of {place[0]}, which it has finished itself"
            self._kernel.fail(Broken("repeated", text))
        parked = self.ledger.parked
        check = parked.check_replayed if replayed else parked.check_live
        self._checked(check, member, *place)
        self._checked(self.repeats.check, member, place)
        sought, _ = self._sought.get((member.process, place[0]), (-math.inf, 0))
        if place[0] not in self._truth.unsure and call.began > sought:  # it finishes its batch
            options = {"calm": self._calm, "replayed": replayed}
            self._checked(self.ledger.check_repeat, member, place, **options)

    @_surely
    def crashed(self, member, message, *, replayed):
        """A message ends the process that handles it."""
        queue, offset = message.queue, message.queue_offset
        self._checked(
            self.ledger.deaths.killed,
            member,
            (queue, offset),
            replayed=replayed,
            commands=self.ledger.parked.releases(queue, message.sharding_key),
        )

    @_surely
    def finished(self, call, message, delivery):
        """A handler is done with a message, and goes on to the next one."""
        delivery.success, delivery.ended = True, len(self.events)
        call.done.append(message.queue_offset)


def _is_kept(command):
    """Whether a send is of a state record, or to a park queue."""
    return from_ext(SendMessage, command.ext).topic == PARK or record_in(command) is not None
