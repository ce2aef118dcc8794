"""What is on record of each queue: committed offsets, what is finished ahead of them, and tokens.

It reads the state records as they reach the broker, and judges them by a rule of its own: a record
counts unless a higher token was confirmed before it. What it tells of parked keys is `parked`'s.
"""

import math
from collections import defaultdict

from orderly.errors import ProtocolError
from orderly.ordering.fence import FORGOTTEN
from orderly.ordering.topic_names import state_topic
from orderly.protocol.ext import from_ext
from orderly.protocol.send import SendMessage
from orderly.protocol.state_record import Acquire, Confirm, Entry, Trying, decode_record
from tests.simulation.deaths import Deaths
from tests.simulation.parked import ParkedKeys
from tests.simulation.truth import GROUP, TOPIC, Broken

STATE = state_topic(GROUP, TOPIC)
_SLACK = 3.0  # seconds beyond commit_interval until what is finished is surely on record


def record_in(command):
    """The state record that a send carries, or None if it is another message."""
    header = from_ext(SendMessage, command.ext)
    if header.topic != STATE:
        return None
    try:
        return decode_record(command.body)
    except ProtocolError as error:
        raise Broken("record", f"what is sent to the state topic is none: {error}") from error


class Ledger:
    """Told by the witness.

    Args:
        world: has `kernel`, `truth`, `scenario` and `note`.

    Attributes:
        recorded: by queue, the offsets that are committed, or finished by a record that counts.
        ownerships: (process, queue) -> when the process took the queue last.
        parked: which keys are parked.
        deaths: what is on record of owners that ended.
    """

    def __init__(self, world):
        self._world = world
        self._kernel = world.kernel
        self._truth = world.truth
        self._settings = dict(world.scenario.settings)
        self._confirmed = defaultdict(lambda: -1)
        self._tokens = defaultdict(lambda: -1)
        self._holders = {}
        self._finished = {}
        self._died = {}
        self._committed = {}
        self._late = {}
        self._parts = {}  # by queue and token: what a state in several records claims so far
        self.recorded = defaultdict(set)
        self._claims = defaultdict(set)  # the part of it that records tell
        self._sent = defaultdict(list)  # by queue, when which offset was committed
        self._ahead = defaultdict(set)  # by queue, what it tells to be finished ahead
        self._newest = {}  # by queue, the newest entry that is complete
        self._told = defaultdict(list)  # by queue, (offset, record) that count, of the present log
        self._acquired = defaultdict(set)  # by queue, the tokens of the present log
        self._forgotten = {}  # by queue, when a broker that was killed forgot its offset
        self._log_changed = {}  # by queue, when records were lost last
        self._unjudged = defaultdict(set)  # claimed while a reset was on its way: true, or undone
        self.ownerships = {}
        self._confirmers = {}  # by process and queue, when it was confirmed as owner last
        self.parked = ParkedKeys(world)
        self.deaths = Deaths(world)

    # --- owners --------------------------------------------------------------------------------

    def taken(self, process, queue):
        """A member begins to own a queue."""
        self.ownerships[process, queue] = self._kernel.now

    def died(self, process, *, clean):
        """A process ended; clean: after it had given everything back."""
        self._died[process] = -math.inf if clean else self._kernel.now

    def check_token(self, member, queue, token):
        """A handler sees a token: it never falls, and each taking of the queue has its own."""
        if self._settings["order"] == "queue":
            if token is not None:
                raise Broken("token", f"{member} has token {token} of {queue}, by queue")
            return
        ownership = member.process, self.ownerships.get((member.process, queue))
        if ownership[1] is not None and ownership[1] < self._log_changed.get(queue, 0.0):
            return  # its token is of a log that is no more
        holder = self._holders.setdefault((queue, token), ownership)
        if holder != ownership:
            text = f"{member} has token {token} of {queue}, which {holder[0].name} had"
            raise Broken("token", text)
        if token < self._tokens[queue]:
            text = f"{member} has token {token} of {queue}, after {self._tokens[queue]} was seen"
            raise Broken("token", text)
        self._tokens[queue] = token

    # --- what is written -----------------------------------------------------------------------

    def stored(self, member, queue, record, offset, *, judged):
        """The broker stored a state record at `offset`; returns whether parked keys changed.

        Not judged is what it claims while an offset reset is on its way to the owner.
        """
        self._world.note(member, f"writes {_shown(record)} at", offset, "of", queue)
        if isinstance(record, Acquire) and offset <= self._confirmed[queue]:
            raise Broken("token", f"{offset} of {queue} is not above {self._confirmed[queue]}")
        if isinstance(record, Acquire):
            self._acquired[queue].add(offset)
        elif record.token not in self._acquired[queue]:
            return False  # of a log that is no more
        self._told[queue].append((offset, record))
        if isinstance(record, Confirm):
            self._confirmed[queue] = max(self._confirmed[queue], record.token)
            self._confirmers[member.process, queue] = self._kernel.now
            self.deaths.confirmed(queue, record)
        elif isinstance(record, Trying) and record.token == self._confirmed[queue]:
            self.deaths.tries(queue, record)
        elif isinstance(record, Entry):
            return self._enter(member, queue, record, judged=judged)
        return False

    def _enter(self, member, queue, record, *, judged):
        if not self._world.generations.knows(member.process, queue):
            return False  # of a topic that is no more
        if self.lost_records_since(queue, self.ownerships.get((member.process, queue), math.inf)):
            return False  # it builds on records that are no more
        if record.token < self._confirmed[queue]:
            if judged:
                self._check_claim(member, queue, record, self.parked.has_copy)
                self._check_late(member, queue, record)
            return False
        changed = self.parked.recorded(queue, record)
        if not judged:
            self._unjudged[queue].update(_claimed(record))
        claimed = _claimed(record) | self.recorded[queue] | self._unjudged[queue]
        self.parked.pass_over(member.process, queue, claimed)
        if judged:
            self._check_claim(member, queue, record, self.parked.covers)
        self._add(queue, record, judged=judged)
        return changed

    def _add(self, queue, record, *, judged):
        """A part of a state is stored, or all of it; until then an heir goes by what was before."""
        before, place = self._newest.get(queue), (queue, record.token)
        if record.chunk == 0 and (record.chunks or (before and record.low < before.low)):
            self._ahead[queue].clear()
        self._ahead[queue].update(o for start, end in record.runs for o in range(start, end))
        if record.chunks and record.chunk == 0:
            self._parts[place] = set()
        part = self._parts.setdefault(place, set())
        if judged:
            part.update(_claimed(record))
        if record.complete:
            claims = self._parts.pop(place)
            self._claims[queue].update(claims)
            self._newest[queue] = record
            self.recorded[queue].update(claims)
            self.deaths.entered(queue, record)

    def _check_late(self, member, queue, record):
        """A former owner's record may land behind its heir's confirmation; no other follows it."""
        before = self._late.setdefault((queue, record.token), record.previous)
        if record.previous != before:
            raise Broken("former owner writes on", f"{member} in {queue}: {record}")

    def _check_claim(self, member, queue, record, waits):
        """What is claimed, now or by a record before, is finished or waits in the park queue."""
        claimed = _claimed(record) | self.recorded[queue]
        end = self._truth.log(queue).max_offset
        unfinished = [o for o in self._truth.unfinished(queue, end) if not waits(queue, o)]
        beyond = max(end, self._truth.start[queue])
        wrong = [o for o in sorted(claimed) if o >= beyond] + unfinished
        wrong = [offset for offset in wrong if offset in claimed]
        if wrong:
            text = f"{member} says that {wrong} of {queue} are finished: {record}"
            raise Broken("record claims unfinished", text)

    def committed(self, member, queue, offset):
        """A commit is about to be stored."""
        process, last = member.process, self._committed.get(queue)
        # A round takes several queues, and commits to the first before it reports any as taken.
        moments = (each.get((process, queue)) for each in (self.ownerships, self._confirmers))
        began = max((moment for moment in moments if moment is not None), default=None)
        other = last is not None and last[0] is not process and (began is None or last[1] > began)
        # By queue an owner that stands where the other one ended may go on from there.
        by_key = self._settings["order"] == "key"
        # So may one by key, if what both have committed was forgotten by a broker that was killed.
        strict = by_key and self._forgotten.get(queue, -math.inf) < (began or 0.0)
        if other and (began is None or strict or offset < last[2]):
            text = f"{member} commits {offset} of {queue}, where {last[0].name} did meanwhile"
            raise Broken("overwritten", text)
        if other:
            self.robbers_do_not_count(queue, 0)
        self._committed[queue] = process, self._kernel.now, offset
        self._sent[queue].append((self._kernel.now, offset))
        self.deaths.moved(queue, offset)
        self.recorded[queue].update(range(offset))

    def robbers_do_not_count(self, queue, offset):
        """Another owner has committed: what is ahead is no longer next to an offset of its owner.

        Whoever takes the queue next takes that for an offset that was set.
        """
        self._claims[queue].clear()
        self.recorded[queue] = set(range(offset))

    def has_claims(self, queue):
        """Whether any record tells what is finished of a queue."""
        return bool(self._claims[queue])

    def last_owner(self, queue):
        """The process that took a queue last, or None."""
        taken = [(at, process) for (process, one), at in self.ownerships.items() if one == queue]
        return max(taken, key=lambda ownership: ownership[0], default=(0.0, None))[1]

    def went_back(self, queue, stored):
        """The broker was killed, and has an older offset; the records are all there.

        One that tells of nothing finished ahead proves nothing against an offset that its owner had
        sent before (`resume`): an operator may have set it.
        """
        newest = self._newest.get(queue)
        ahead = newest is None or max(self._claims[queue], default=-1) >= newest.low
        if not ahead and stored not in (newest.low, newest.previous_low):
            self._claims[queue].clear()
        self.recorded[queue] = set(range(stored)) | self._claims[queue]
        self._committed.pop(queue, None)
        self._forgotten[queue] = self._kernel.now

    def may_look_forgotten(self, queue, offset):
        """Whether a broker that was killed could come back with an offset, by key.

        It is one of those that were committed shortly before the last one, or that the newest state
        tells to have been. Then a heir goes on with what is finished ahead, whoever has set it.
        """
        if self._settings["order"] != "key":
            return False
        sent, newest = self._sent[queue], self._newest.get(queue)
        last = sent[-1][0] if sent else 0.0
        fresh = {each for at, each in sent if at >= last - FORGOTTEN}
        fresh.update([each for at, each in sent if at < last - FORGOTTEN][-1:])
        if newest is not None:
            fresh.update((newest.low, newest.previous_low, *newest.window))
        return offset in fresh

    def is_ahead(self, queue):
        """Whether the newest state has something finished above the offset it was written with."""
        newest = self._newest.get(queue)
        return newest is not None and any(each >= newest.low for each in self._claims[queue])

    def agrees(self, queue, offset):
        """Whether the newest state says no more than an offset does, or there is none."""
        newest = self._newest.get(queue)
        ahead = any(each >= offset for each in self._ahead[queue])
        return newest is None or (newest.low == offset and not ahead)

    def is_on_record(self, queue, offset):
        """Whether a message is on record as finished, and does not wait in the park queue."""
        return offset in self.recorded[queue] and not self.parked.covers(queue, offset)

    def lose_records(self, queue):
        """The state records of a queue are gone: what is finished ahead is not known any more."""
        self._world.witness.repeats.records_lost(queue)
        self.recorded[queue] = set(range(self._truth.stored(queue)))
        self._claims[queue].clear()
        self._unjudged[queue].clear()
        self._forget_parts(queue)
        self._newest.pop(queue, None)

    def begin_anew(self, queue):
        """The topic was deleted: what is on record of a queue is of the past."""
        self.forget(queue)
        self._newest.pop(queue, None)
        self._sent.pop(queue, None)

    def _forget_parts(self, queue):
        """No state of a queue is complete, but for those to come."""
        self._parts = {place: part for place, part in self._parts.items() if place[0] != queue}

    def lost_records_since(self, queue, moment):
        """Whether the log of a queue's records was deleted, or cut off."""
        return self._log_changed.get(queue, -math.inf) > moment

    def records_lost(self, queue, end):
        """The log of a queue's records has lost those from `end` on; 0: all, the topic is deleted.

        Their offsets begin anew there, but tokens rise on. What the lost ones told is not on record
        any more, until their owner tells it again.
        """
        self._log_changed[queue] = self._kernel.now
        self._world.witness.repeats.records_lost(queue)
        left = [(offset, record) for offset, record in self._told[queue] if offset < end]
        self._told[queue] = left
        self._acquired[queue] = {offset for offset in self._acquired[queue] if offset < end}
        confirmed = [record.token for _, record in left if isinstance(record, Confirm)]
        self._confirmed[queue] = max(confirmed, default=-1)
        for place in [p for p in self._late if p[0] == queue]:
            del self._late[place]
        self._forget_parts(queue)
        self._newest.pop(queue, None)
        # What is left may be older than the committed offset: then it looks like a reset.
        self._claims[queue].clear()
        self.recorded[queue] = set(range(self._truth.stored(queue)))
        self._unjudged[queue].clear()

    def forget(self, queue):
        """An operator reset the offset of a queue: what is on record counts no more."""
        self.deaths.excuse(queue)
        self._forget_parts(queue)
        self.recorded[queue].clear()
        self._claims[queue].clear()
        self._unjudged[queue].clear()
        self._committed.pop(queue, None)
        for place in [place for place in self._finished if place[0] == queue]:
            del self._finished[place]

    # --- what is repeated ----------------------------------------------------------------------

    def finished(self, process, place):
        """A handler is done with a message."""
        self._finished[place] = process, self._kernel.now

    def check_repeat(self, member, place, *, calm, replayed):
        """The owner has a message handled: it is not on record as finished.

        In calm histories neither was it finished long enough ago to be on record by now, unless its
        process was killed before.
        """
        queue, offset = place
        known = offset in self.recorded[queue]
        if known and not (replayed and self.parked.covers(queue, offset)):
            raise Broken("repeated", f"{member}: {offset} of {queue} is on record as finished")
        if not calm or place not in self._finished:
            return
        process, moment = self._finished[place]
        window = self._settings["commit_interval"] + _SLACK
        text = f"{member}: {offset} of {queue} was finished by {process.name}"
        if process not in self._died or self._died[process] == -math.inf:
            raise Broken("repeated", f"{text}, which was not killed")
        if self._died[process] > moment + window:
            raise Broken("repeated", f"{text}, {self._died[process] - moment:.1f} s before its end")


def _shown(record):
    if isinstance(record, Acquire):
        return "acquire"
    if isinstance(record, Confirm):
        return f"confirm of {record.token}"
    if not isinstance(record, Entry):
        return str(record)
    closed = " closed" if record.closed else ""
    ahead = f"{record.low}({record.previous_low})+{list(record.runs)}"
    parts = [f"entry of {record.token}: {ahead}{closed} chunk {record.chunk}/{record.chunks}"]
    parts += [f"parks {parked}" for parked in record.parked]
    parts += [f"releases {key}" for key in record.released]
    if record.deaths or record.suspects:
        parts.append(f"{record.deaths} deaths, suspects {record.suspects}")
    return ", ".join(parts)


def _claimed(record):
    """What an entry says is finished."""
    claimed = {offset for start, end in record.runs for offset in range(start, end)}
    claimed.update(range(record.low))
    return claimed
