"""What a platform wheel does with random inputs, as lines of text.

`python -m tests.compiled.transcript SEED` prints them; each part draws from the seed. The same
program on the sources must print the same (test_a_platform_wheel.py). Decoders and outbox are not
compiled today, but beside what is.
"""

import random
import sys
from dataclasses import dataclass
from zlib import crc32

from orderly.compiled import COMPILED
from orderly.errors import BrokerError, ProtocolError
from orderly.model import MessageQueue
from orderly.ordering.lanes import Lanes
from orderly.ordering.outbox import Outbox, OutboxEntry, OutboxRules, SendVerdict
from orderly.ordering.owned_queue import Drop, Lease, OwnedQueue
from orderly.ordering.process_queue import ProcessQueue
from orderly.ordering.pull_window import PullGate
from orderly.ordering.results import Disposition
from orderly.protocol.frame import FrameDecoder
from orderly.protocol.properties import decode_properties
from orderly.protocol.stored_message import decode_pull
from tests.fuzz.targets import MAX_BODY, MAX_FRAME, TARGETS
from tests.support.messages import QUEUE, message

CASES = 3000  # inputs of each decoder
HISTORIES, STEPS = 150, 120
SHOWN = 300  # characters of a line; all of it is in its checksum


def transcript(seed):
    """Yield the lines."""
    for part in (decoding, lanes, owned_queue, process_queue, outbox):
        for line in part(random.Random(f"{part.__name__} {seed}")):
            yield f"{part.__name__}: {line[:SHOWN]} {crc32(line.encode(errors='replace')):08x}"


# --- decoders -------------------------------------------------------------------------------------


def read_stored(data, rng):
    """All fields of all messages, and where the rest is left."""
    end, room = rng.choice((None, 18, 19, 2**63 - 1)), rng.choice((0, 5000, 1e9))
    found, left, _ = decode_pull(data, "broker-a", end=end, room=room, max_body=MAX_BODY)
    return [(each, each.held_size, each.raw_body) for each in found], left


def read_frames(data, rng):
    """What has come after each piece."""
    decoder, at, found = FrameDecoder(MAX_FRAME), 0, []
    while at < len(data):
        size = rng.choice((1, 3, 7, 64, 4096))
        found.append(decoder.receive(data[at : at + size]))
        at += size
        for command in found[-1]:
            command.language = int(command.language)  # a compiled int holds no member of an enum
    return found


def read_properties(data, rng):
    return decode_properties(data)


DECODERS = {
    "stored message": read_stored,
    "frame": read_frames,
    "properties": read_properties,
}


def decoding(rng):
    """A value, or the error with its text."""
    for name, read in DECODERS.items():
        for number in range(CASES):
            data = TARGETS[name].draw(rng)
            try:
                found = read(data, rng)
            except ProtocolError as error:
                found = error
            yield f"{name} {number}: {found!r}"


# --- lanes and queues -----------------------------------------------------------------------------


def messages(rng, start, most=6):
    """The next messages, with gaps as a filter leaves them; and the offset after them."""
    offsets = [start + place for place in range(rng.randrange(most)) if rng.random() < 0.8]
    return [message(offset) for offset in offsets], start + most


def batch_text(batch):
    if batch is None:
        return "nothing"
    return f"{batch.key}:{[each.queue_offset for each in batch.messages]} done {batch.done}"


def lanes(rng):
    """Keys of one queue: put, taken, finished, suspended, woken, paused."""
    for _ in range(HISTORIES):
        it = Lanes(bounded=rng.random() < 0.8, batch_size=rng.choice((1, 3)))
        it.limit(rng.choice((5, 40)), rng.choice((600, 10**9)))
        at, now, work = 0, 0.0, []
        for _ in range(STEPS):
            step, now = rng.choice("pppttttffffwwzbrrr"), now + rng.random()
            said = step
            if step == "p":
                found, at = messages(rng, at)
                it.put(found, [rng.choice("abc") for _ in found])
            elif step == "t" and (batch := it.take(rng.choice((1, 2)), now, rng.choice((1, 3)))):
                work.append(batch)
                said += batch_text(batch)
            elif step == "f" and work:
                said += ended(it, work.pop(rng.randrange(len(work))), rng, now)
            elif step == "b" and work:
                it.give_back(work.pop())
            elif step == "w":
                it.wake(now)
            elif step == "z":
                it.pause(rng.choice("ab"))
            elif step == "r":
                it.resume(rng.choice("ab"), now)
            yield f"{said} {state_of_lanes(it)}"


def ended(it, batch, rng, now):
    """Tell lanes or a queue how a batch ended."""
    disposition, wait = rng.choice(list(Disposition)), rng.choice((None, None, 2.0))
    if disposition in (Disposition.COMMIT, Disposition.KEEP):
        wait = None
    named = {each.queue_offset for each in batch.messages if rng.random() < 0.3}
    until = None if wait is None or isinstance(it, OwnedQueue) else now + wait
    if isinstance(it, OwnedQueue):
        it.finish(batch, disposition, now, finished=named, wait=wait)
    else:
        it.finish(batch, disposition, finished=named, wake_at=until)
    return f"{disposition.name} {sorted(named)} {wait}"


def state_of_lanes(it):
    return (
        len(it), it.ready, it.running, it.wake_at, it.suspended, it.paused, it.lowest, it.in_hand,
        it.unfinished(), it.offsets(), it.count, it.size, it.crowded(0.5), it.room(), it.moving,
        it.refill_from, it.takes_bodies,
    )  # fmt: skip


def owned_queue(rng):
    """A held queue, by queue and by key: pulls, runs, leases, drops, saved offsets."""
    for number in range(HISTORIES):
        it = OwnedQueue(
            QUEUE, 10, Lease(0.0, 30.0), max_messages=20, max_bytes=10_000,
            by_key=number % 2 == 0, max_runs=2, max_span=30,
        )  # fmt: skip
        now, work = 0.0, []
        for _ in range(STEPS):
            step, now = rng.choice("pppprrrttttttffffffwwlllsgozxxxxD"), now + rng.random()
            part = pulls if step in "pgo" else works if step in "rtf" else lives
            said = f"{step} {part(it, step, rng, now, work)}"
            yield f"{said} {state_of_queue(it, now)} {state_of_lanes(it.messages)}"


def pulls(it, step, rng, now, work):
    """Messages come: new ones, bodies again, or an offset that somebody set."""
    if step == "p":
        gate = it.pull_gate(now)
        found, end = messages(rng, it.next_pull)
        keys = [rng.choice("abc") for _ in found] if it.by_key else None
        if gate is PullGate.OPEN:
            it.pulled(found, end, end, keys)
        return gate.name
    if step == "g" and (asked := it.refill_gate(now)) is not None:
        found = [message(asked + place) for place in range(rng.randrange(4))]
        return it.refilled(asked, found, asked + len(found))
    if step == "o" and rng.random() < 0.1:
        return it.restart_at(rng.randrange(60), Drop.OFFSET_ILLEGAL)
    return None


def works(it, step, rng, now, work):
    """A run is asked for, takes a batch, and ends it."""
    if step == "r":
        asked = it.request_run()
        it.begin_run()
        return asked
    if step == "t":
        if (batch := it.take(rng.choice((1, 2)), now, rng.choice((1, 3)))) is not None:
            work.append(batch)
        return batch_text(batch)
    return ended(it, work.pop(rng.randrange(len(work))), rng, now) if work else None


def lives(it, step, rng, now, work):
    """Time, leases, saved offsets, pauses, and the end."""
    if step == "w":
        it.wake(now)
    elif step == "l":
        it.lease.renew(now)
    elif step == "s" and it.unsaved(now) is not None:
        it.fence.note(it.offset, now)
    elif step == "z":
        it.pause()
    elif step == "x":
        it.resume(now)
    elif step == "D" and rng.random() < 0.1:
        return it.drop(rng.choice(list(Drop)))
    return None


def state_of_queue(it, now):
    return (
        it.offset, it.next_pull, it.span, it.unsaved(now), it.finished_ahead, it.idle, it.counts,
        it.keeps_lock(now), it.stuck_full, it.wants_bodies(now), it.dropped, it.handling_since,
        it.ahead,
    )  # fmt: skip


def process_queue(rng):
    """Messages of one queue: put, taken, committed, rolled back, put back."""
    for _ in range(HISTORIES):
        it, at = ProcessQueue(), 0
        for _ in range(STEPS):
            step = rng.choice("pptttcrb")
            if step == "p":
                found, at = messages(rng, at)
                it.put(found)
            elif step == "t":
                it.take(rng.choice((1, 2, 5)))
            elif step == "c":
                it.commit()
            elif step == "r":
                it.rollback({each.queue_offset for each in it.taken if rng.random() < 0.3})
            elif step == "b" and it.taken:
                it.untake(rng.randrange(len(it.taken) + 1))
            offsets = [each.queue_offset for each in it.taken]
            yield f"{step} {offsets} {list(it.offsets())} {it.spans} {it.pending_size}"


# --- outbox ---------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Sent(OutboxEntry):
    number: int = 0


def outbox(rng):
    """What waits to be sent to a queue: submitted, sent, refused, late, given up."""
    rules = OutboxRules(retries=2, retry_backoff=0.1, batch_messages=4, batch_bytes=100)
    for _ in range(HISTORIES):
        it, now, flying = Outbox(MessageQueue("T", "b", 0), rules), 0.0, None
        for number in range(STEPS):
            now, failed = now + rng.random() / 4, []
            step = rng.choice("sssttoofxr")
            if step == "s":
                size, patience = rng.randrange(1, 120), rng.choice((0.5, 3.0, 50.0))
                entry = Sent(rng.choice(("a", "b", None)), size, 0, now + patience, number=number)
                failed = it.submit(entry, now)
            elif step == "t":
                flying = it.take(now, lambda entry: entry.number % 7 != 0) or flying
            elif step == "o" and flying:
                it.stored(flying)
            elif step == "f" and flying:
                failed = it.refused(flying, rng.choice(list(SendVerdict)), BrokerError("no"), now)
            elif step == "x":
                failed = it.expire(now)
            elif step == "r":
                it.resume("a")
            numbers = [each.number for each in flying.entries] if flying else None
            errors = [(each.number, repr(error)) for each, error in failed]
            yield f"{step} {numbers} {errors} {it.wake_at()} {it.busy} {it.empty}"


if __name__ == "__main__":
    print(f"compiled: {COMPILED}")
    for line in transcript(sys.argv[1]):
        print(line)
