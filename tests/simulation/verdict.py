"""What must hold of a whole history, once it is over: the oracle's order, and what was sent."""

import math
from collections import defaultdict

from orderly import ProducerConfig
from orderly.errors import PrecedingSendFailed
from orderly.ordering.repeats import is_marked
from orderly.testing.oracle import Committed, Delivered, Sent, judge
from tests.simulation.commits import Commit
from tests.simulation.copiers import OTHERS
from tests.simulation.generations import is_blind
from tests.simulation.truth import Broken, number_of
from tests.simulation.witness import Delivery

EXCUSES = {  # what is not judged but deliveries, by what is counted of it
    "topic anew, excused": "members could not prove that a topic was made anew",
    "handled blindly": "messages handled by members that could not know yet that it was",
    "reset, excused": "resets to what a killed broker may come back with",
    "reset, unsure": "resets or seeks while other things went wrong",
    "records lost": "queues whose last state records a broker lost",
    "state topic deleted": "state topics deleted",
    "alarm, excused": "warnings that a reset, or lost records, may explain",
}
_HOLD = ProducerConfig().hold_failed_key - 1.0  # seconds; of the producer's own clock


def judge_deliveries(world):
    """Order and completeness, by the oracle.

    What a member does while it cannot know that it is not the owner any more (a forgotten lock
    table, a process that slept) is excused: the others' deliveries alone are in order then. But
    nothing may be lost.

    Raises:
        Broken: "lost" or "order".
    """
    witness, truth, scenario = world.witness, world.truth, world.scenario
    repeats = witness.repeats.among(_logs(world))
    unheard = witness.ledger.parked.unheard | repeats
    handled = set(witness.calls) - unheard
    sent, lanes = _sent(world, handled, unheard)
    if scenario.forged:
        return _judge_forged(world, sent, repeats)
    for queue, offset in handled:
        if offset in truth.skipped[queue] or queue in world.generations.past:
            witness.latest[queue, offset].success = True  # it was said that it is done, or deleted
    unheard = unheard | {place for place in handled if place[1] < truth.start[place[0]]}
    unheard |= {place for place in handled if is_blind(place[0])}
    verdict = judge(sent, _in_lanes(witness.events, lanes, unheard))
    if verdict.lost:
        raise Broken("lost", str(verdict.examples))
    if not verdict.ok:
        raise Broken("order", str(verdict.examples))
    bad = scenario.failing or scenario.stuck or scenario.poison or scenario.killers
    bad = bad or scenario.manual or scenario.dying
    undisturbed = not scenario.faults and not bad
    if verdict.duplicates and undisturbed:
        raise Broken("duplicates", f"{verdict.duplicates}, without a fault")
    return verdict


def _judge_forged(world, sent, repeats):
    """Of a history in which records were forged: nothing is lost, and each key in its order.

    What is told of commits and parked keys is not asked. A queue that nobody takes, and whose
    members say so, has lost nothing of what it was not asked for.
    """
    witness, truth = world.witness, world.truth
    stopped = {queue for queue in truth.queues() if not truth.consumed(queue)}
    world.happened["stopped by a forgery"] += len(stopped)
    waits = {place for place in (s.id for s in sent) if place[0] in stopped}
    waits = {place for place in waits if place[1] not in truth.finished[place[0]]}
    sent = [each for each in sent if each.id not in waits]
    verdict = judge(sent, _in_lanes(witness.events, defaultdict(dict), waits | repeats))
    if verdict.lost:
        raise Broken("lost", str(verdict.examples))
    if not verdict.ok:
        raise Broken("order", str(verdict.examples))
    return verdict


def _sent(world, handled, unheard):
    """What is to be handled, and by queue the lanes of that.

    Of a topic that was deleted it is what its lanes had come to; what nobody can know is left out.
    """
    witness, truth, sent, lanes = world.witness, world.truth, [], defaultdict(dict)
    reached = _reached(world, handled)
    for queue, messages in _logs(world).items():
        for message in messages:
            lane, offset = witness.lane(message, queue), message.queue_offset
            end = reached.get(lane, -1) if queue in world.generations.past else math.inf
            place = queue, offset
            passed = offset in truth.skipped[queue] and place not in handled
            if passed or place in unheard or not truth.start[queue] <= offset <= end:
                continue
            if truth.wanted(*place):
                lanes[queue][lane] = None
                sent.append(Sent(_key(message.sharding_key, lane), place, lane, offset))
    return sent, lanes


def _logs(world):
    """All messages by queue: those that were deleted with the topic first."""
    present = {queue: world.truth.messages(queue) for queue in world.truth.queues()}
    return world.generations.past | present


def _reached(world, handled):
    """By lane, the highest offset that was handled."""
    reached = {}
    for place in sorted(handled, key=lambda place: place[1]):
        reached[world.witness.latest[place].lane] = place[1]
    return reached


def _in_lanes(events, lanes, unheard):
    """The oracle's events with a lane in a queue's place: within one nothing is passed over.

    What was dropped before anybody had handled it has no place in the order, should it come back.
    What is excused is in its place when it has ended: before that nobody may pass it over.
    """
    for _, event in sorted(enumerate(events), key=_place):
        if isinstance(event, Commit):
            for lane in lanes[event.queue]:
                yield Committed(lane, event.of_key(lane[-1]))
        elif event.id not in unheard:
            key = _key(event.key, event.lane)
            offset, excused = event.id[1], event.excused
            yield Delivered(key, event.id, event.lane, offset, event.success, excused=excused)


def _place(numbered):
    number, event = numbered
    late = isinstance(event, Delivery) and event.excused and event.ended is not None
    return event.ended - 0.5 if late else number


def _key(key, lane):
    """Messages without a key are in the order of their lane."""
    return lane if key is None else key


def judge_sends(world):
    """Acknowledged sends are stored; each key's first copies are in order, without overtaking.

    Raises:
        Broken: "acknowledged", "stored order", "overtaken" or "sent again".
    """
    logs = _logs(world)
    _judge_attempts(message for log in logs.values() for message in log)
    first = defaultdict(dict)
    for log in logs.values():
        for message in (message for message in log if message.sharding_key is not None):
            first[message.sharding_key].setdefault(number_of(message))
    lost = world.copier.numbers_lost
    for key, numbers in first.items():
        kept = [number for number in numbers if (key, number) not in lost]
        if kept != sorted(kept):
            raise Broken("stored order", f"{key}: {kept}")
    for key, number in lost:
        first[key].setdefault(number)
    for producer in world.producers:
        for entry in producer.submitted:
            if (entry.key, entry.number) not in lost:
                _judge_entry(world.generations, entry, logs, first)
        _judge_holds(producer.submitted, first)


def _judge_attempts(messages):
    """All attempts of a send have one id, born time and body, and but one of them has no mark."""
    sends = defaultdict(list)
    for message in messages:
        if message.born_host != OTHERS:
            sends[message.message_id].append(message)
    for attempts in sends.values():
        if len({(each.born_time, each.raw_body) for each in attempts}) > 1:
            raise Broken("sent again", f"changed: {attempts}")
        if sum(not is_marked(each) for each in attempts) > 1:
            raise Broken("sent again", f"without a mark: {attempts}")


def _judge_entry(generations, entry, logs, first):
    if (result := entry.result) is not None:
        queue = generations.of_place(result.queue, result.offset_message_id)
        there = logs[queue][result.queue_offset : result.queue_offset + 1]
        if [number_of(message) for message in there] != [entry.number]:
            raise Broken("acknowledged", f"{entry.number}, but {there} is stored there")
    elif isinstance(entry.error, PrecedingSendFailed) and entry.number in first[entry.key]:
        raise Broken("overtaken", f"{entry.number} of {entry.key} is stored; it said it was not")


def _judge_holds(submitted, first):
    """A key whose message failed takes no others for a while, or they would overtake it."""
    for failed in submitted:
        if (
            failed.error is None
            or not failed.taken
            or failed.key is None
            or failed.number in first[failed.key]
        ):
            continue
        for later in submitted:
            behind = later.key == failed.key and later.number > failed.number
            if behind and later.at < failed.ended + _HOLD and later.number in first[later.key]:
                text = f"{later.number} of {later.key} is stored, {failed.number} is not"
                raise Broken("overtaken", text)
