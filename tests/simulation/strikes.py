"""Carries faults out: on processes, on the network, on brokers, and as an operator would."""

import random
from functools import partial

from orderly.protocol.frame import reply_to
from orderly.protocol.park_record import Verb
from orderly.testing.fake.cluster import NAME_SERVER
from orderly.testing.fake.exchange import Outgoing
from tests.simulation.ledger import STATE
from tests.simulation.parked import PARK
from tests.simulation.scenario import (
    MADE_BY_HAND,
    MADE_BY_SENDS,
    PARK_TOPIC,
    QUERY,
    SEND,
    SEND_BATCH,
    TO_THE_END,
    WRITTEN,
)
from tests.simulation.truth import GROUP, TOPIC

_ARMED = 10.0  # seconds for which a pause waits for its request
_LOST = 0.3  # share of the sends of connections that end which nobody reads
_CUT_OFF = ("partition", "isolate")


class Strikes:
    """Each fault kind is a method.

    Args:
        world: has all that can be struck.

    Attributes:
        restarted_at: by broker, when it was last back without its locks.
    """

    def __init__(self, world):
        self._world = world
        self._kernel = world.kernel
        self._network = world.network
        self._lasting = []
        self._armed = []
        self._late = 0.0
        self.restarted_at = dict.fromkeys(world.cluster.brokers, -1e9)
        world.network.interfere = self._interfere
        world.network.refused = self._refused
        world.network.left_behind = self._left_behind
        self._unread = random.Random(f"unread {world.scenario.seed}")

    def strike(self, fault):
        """Let a fault happen now."""
        self._world.note("FAULT", fault)
        getattr(self, "_" + fault.kind.replace(" ", "_"))(fault)

    def _process(self, fault):
        role, index = fault.who.split()
        return getattr(self._world, f"{role}s")[int(index)].process

    def _member(self, fault):
        return self._world.members[int(fault.who.split()[1])]

    def _broker(self, fault):
        names = sorted(self._world.cluster.brokers)
        return names[int(fault.who.split()[1])]

    # --- processes -----------------------------------------------------------------------------

    def _kill(self, fault):
        self._member(fault).kill()
        self._kernel.after(fault.seconds, self._member(fault).begin)

    def _kill_at(self, fault):
        """The next state record, or commit, is the last thing the member sends."""
        self._armed.append((self._kernel.now + fault.seconds, fault))

    def _pause_at(self, fault):
        """The member stands still when it has sent the next request of a kind."""
        self._armed.append((self._kernel.now + _ARMED, fault))

    @property
    def armed(self):
        """Whether a fault waits for a request."""
        return bool(self._armed)

    def spring(self, member, code, *, leaving):
        """A member sends, or the broker has, what an armed fault may wait for."""
        rng = self._kernel.random
        for until, fault in self._armed:
            if until >= self._kernel.now and fault.code == code and self._member(fault) is member:
                if rng.random() < 0.5:
                    continue  # not at this one, or not before it has arrived
                self._armed.remove((until, fault))
                self._world.note("FAULT", fault, "now")
                if fault.kind == "pause at":
                    self._kernel.pause(member.process, fault.seconds)
                    # A record may be the last thing it was about to write when it was stopped; a
                    # commit so late would do harm that no client can prevent.
                    self._late = fault.seconds if code == SEND and leaving else 0.0
                else:
                    self._kernel.after(0.0, member.kill)
                    self._kernel.after(rng.choice([1.0, 10.0]), member.begin)
                return

    def _close(self, fault):
        member = self._member(fault)
        if member.process is not None and not member.process.dead:
            self._kernel.spawn(lambda: member.leave(fault.seconds), "leaving", member.process)

    def _pause(self, fault):
        if (process := self._process(fault)) is not None:
            self._kernel.pause(process, fault.seconds)

    def _blind_start(self, fault):
        """A member is killed and comes back, and no broker tells it where the group is."""
        self._member(fault).kill()
        self._kernel.after(0.5, self._member(fault).begin)
        self._last(fault)

    def _program_pause(self, fault):
        self._by_member(fault, lambda member: member.hold(fault.seconds))

    def _key_pause(self, fault):
        self._by_member(fault, lambda member: member.hold_a_key(fault.seconds))

    def _seek(self, fault):
        self._by_member(fault, lambda member: member.seek(fault.code))

    def _block_loop(self, fault):
        """Something that runs on the members' event loop does not return for a while."""
        self._by_member(fault, lambda member: member.block(fault.seconds))

    def _by_member(self, fault, act):
        """A member's program does something with its consumer."""
        member = self._member(fault)
        if member.process is not None and not member.process.dead:
            self._kernel.spawn(lambda: act(member), fault.kind, member.process)

    # --- the network ---------------------------------------------------------------------------

    def _cut(self, fault):
        process = self._process(fault)
        self._network.cut_all(lambda link: link.process is process)

    def _isolate(self, fault):
        self._last(fault)
        self._cut(fault)

    def _last(self, fault):
        self._lasting.append((self._kernel.now + fault.seconds, fault))

    _partition = _slow_network = _lose_answers = _lose_requests = _last

    def _interfere(self, link, code, reply):
        """Seconds by which a command is late, or "drop"."""
        if not self._lasting and not self._late:
            return None
        if self._late:
            late, self._late = self._late, 0.0
            return late
        for until, fault in self._lasting:
            if until < self._kernel.now or link.process is not self._process(fault):
                continue
            if fault.kind in _CUT_OFF:
                return "drop"
            if fault.kind == "slow network":
                longest = fault.code / 1000 or min(5.0, fault.seconds)
                return self._kernel.random.uniform(0, longest)
            swallowed = "lose answers" if reply else "lose requests"
            if fault.kind == swallowed and code == fault.code:
                return "drop" if self._kernel.random.random() < 0.7 else None
        return None

    def _refused(self, link, command):
        """A broker's own failure, in place of its answer."""
        for until, fault in self._lasting:
            blind = fault.kind == "blind start" and until > self._kernel.now
            if blind and command.code == QUERY and link.process is self._process(fault):
                return [Outgoing(link.number, reply_to(command, 1, remark="made up"))]
        return None

    def _left_behind(self, link, command):
        """Seconds until a broker reads a send of a connection that has ended; None: it is lost."""
        sends = command.code in (SEND, SEND_BATCH) and not command.is_response
        if not sends or not any(link.process is each.process for each in self._world.producers):
            return None
        rng = self._unread
        if rng.random() < _LOST:
            return None
        return rng.choice([0.0, rng.uniform(0, 0.05), rng.uniform(0, 1), rng.uniform(0, 8)])

    # --- brokers -------------------------------------------------------------------------------

    def _broker_restart(self, fault):
        """A broker ends in an orderly way, and is back without its locks."""
        name = self._broker(fault)
        if name not in self._network.down:
            self._network.stop_broker(name)
            self._back(name, fault.seconds)

    def _broker_kill(self, fault):
        """A broker ends at once: it also forgets the offsets it had not written to its disk."""
        name = self._broker(fault)
        if name in self._network.down:
            return
        self._network.kill_broker(name)
        self._back(name, fault.seconds)
        for queue in self._world.truth.queues():
            if queue.broker_name == name:
                forgotten = "offsets" if self._world.truth.has_stored(queue) else "start"
                self._world.happened[f"{forgotten} forgotten"] += 1
                self._world.note("left", self._world.truth.stored(queue), "of", queue)
                self._world.witness.commits.went_back(queue)

    def _back(self, name, seconds):
        self.restarted_at[name] = self._kernel.now + seconds
        self._kernel.after(seconds, lambda: self._network.start_broker(name))

    def _broker_freeze(self, fault):
        self._network.freeze(self._broker(fault), fault.seconds)

    def _name_server_down(self, fault):
        self._network.down.add(NAME_SERVER)
        self._network.cut_all(lambda link: self._network.servers[link.address] == NAME_SERVER)
        self._kernel.after(fault.seconds, lambda: self._network.down.discard(NAME_SERVER))

    def _topic_anew(self, fault):
        """The topic is deleted with all that is in it, and made again a while later."""
        world = self._world
        if not world.truth.exists:
            return
        world.generations.end()
        world.cluster.delete_topic(TOPIC)
        queues = world.scenario.queues
        self._kernel.after(fault.seconds, lambda: world.cluster.create_topic(TOPIC, queues))
        self._kernel.after(fault.seconds, lambda: world.note("the topic is there again"))

    def _records_deleted(self, fault):
        """The state topic, or the park topic, is deleted, and may be made again by a send."""
        world, code = self._world, fault.code
        topic = PARK if code & PARK_TOPIC else STATE
        for state in world.cluster.brokers.values():
            made = "true" if code & MADE_BY_SENDS else "false"
            state.settings["autoCreateTopicEnable"] = made
            there = state.topics.get(topic)
        if there is None:
            return
        if topic == STATE:
            for queue in world.truth.names():
                world.witness.ledger.records_lost(queue, 0)
        world.cluster.delete_topic(topic)
        world.happened[f"{'park' if topic == PARK else 'state'} topic deleted"] += 1
        if code & MADE_BY_HAND:
            self._kernel.after(fault.seconds, lambda: self._make_again(topic))

    def _make_again(self, topic):
        cluster = self._world.cluster
        if not any(state.topics.get(topic) for state in cluster.brokers.values()):
            cluster.create_topic(topic, self._world.scenario.queues)
            self._world.note(topic, "is there again")

    def _records_lost(self, fault):
        """A broker is killed with its machine: it has not the last records any more."""
        name = self._broker(fault)
        if name in self._network.down:
            return
        self._broker_kill(fault)
        for queue in self._world.truth.names():
            log = self._world.cluster.brokers[name].store.log(STATE, queue.queue_id)
            if queue.broker_name == name and log.max_offset:
                log.drop_from(max(log.max_offset - fault.code, log.min_offset))
                self._world.note("left", log.max_offset, "records of", queue)
                self._world.witness.ledger.records_lost(queue, log.max_offset)
                self._world.happened["records lost"] += 1

    def _power_cut(self, fault):
        """All members end, and a broker; it loses the last messages that nobody had finished."""
        name, world = self._broker(fault), self._world
        if name in self._network.down:
            return
        for member in world.members:
            member.kill()
            self._kernel.after(fault.end - fault.at + 1.0, member.begin)
        self._broker_kill(fault)
        for queue in world.truth.queues():
            log = world.truth.log(queue)
            end = max(world.witness.known_end(queue), log.max_offset - fault.code)
            if queue.broker_name == name and end < log.max_offset:
                world.copier.lost(queue, world.truth.messages(queue)[end:])
                log.drop_from(end)
                world.witness.log_lost(queue, end)
                world.happened["messages lost"] += 1
                world.note("left", end, "messages of", queue)

    # --- operators -----------------------------------------------------------------------------

    def _grow(self, fault):
        """More queues to read, as an operator grows a topic; senders keep to the old ones.

        Or a new one begins, with keys of its own, and sends to the new queues, too.
        """
        written = fault.code == WRITTEN
        for _, state in sorted(self._world.cluster.brokers.items()):
            old = state.topics.get(TOPIC)
            grown = type(old)(
                name=TOPIC,
                read_queues=old.read_queues + 1,
                write_queues=old.read_queues + 1 if written else old.write_queues,
                order=True,
            )
            state.create_topic(grown)
        if written:
            self._world.add_producer()

    def _release(self, fault):
        self._world.operator.act(Verb.RELEASE, fault.code)

    def _drop(self, fault):
        self._world.operator.act(Verb.DROP, fault.code)

    def _try(self, fault):
        self._world.operator.act(Verb.TRY, fault.code)

    def _add(self, fault):
        self._world.operator.act(Verb.ADD, fault.code)

    def _look(self, fault):
        self._world.operator.act(Verb.LOOK, fault.code)

    def _late_copy(self, _):
        self._world.copier.late()

    def _send_again(self, _):
        self._world.copier.foreign()

    def _forge(self, fault):
        self._world.forger.strike(fault.code)

    def _lose_records(self, fault):
        """All members are killed, and what they left on record is lost before they come back."""
        for member in self._world.members:
            member.kill()
            self._kernel.after(fault.seconds, member.begin)
        for queue in self._world.truth.queues():
            state = self._world.cluster.brokers[queue.broker_name]
            log = state.store.log(STATE, queue.queue_id)
            log.drop_before(log.max_offset)
            self._world.witness.ledger.lose_records(queue)

    def _reset_while_away(self, fault):
        """All members close, and are back some time after the group's offsets were set."""
        for member in self._world.members:
            if member.process is not None and not member.process.dead:
                self._kernel.spawn(member.close, "leaving", member.process)
        self._once_all_are_away(fault)

    def _once_all_are_away(self, fault):
        members = self._world.members
        if any(member.process is not None and not member.process.dead for member in members):
            self._kernel.after(1.0, partial(self._once_all_are_away, fault))
            return
        self._offset_reset(fault, told=False)
        self._world.happened["reset while away"] += 1
        for member in members:
            self._kernel.after(fault.seconds, member.begin)

    def _offset_reset(self, fault, *, told=True):
        """The group shall go back, or pass over what is not committed yet; told: a pull is so."""
        truth = self._world.truth
        for queue in truth.queues():
            stored, end = truth.stored(queue), truth.log(queue).max_offset
            target = end if fault.code == TO_THE_END else stored * fault.code // 100
            state = truth.cluster.brokers[queue.broker_name]
            self._world.witness.commits.was_reset(queue, target)
            state.offsets.reset(GROUP, TOPIC, queue.queue_id, target)
            if not told:
                state.offsets.take_reset(GROUP, TOPIC, queue.queue_id)
            self._world.note("reset", queue, "from", stored, "to", target)
