"""One simulated history: real consumers and producers, a fake cluster, and what goes wrong.

`run(scenario)` returns the report of a history without a violation, and raises `Violation` with
the trace otherwise.
"""

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from unittest import mock
from zlib import crc32

import orderly.client.client as client_module
from orderly import at_exit, log
from orderly.consumer import rebalancer, runtime
from orderly.ordering import lanes
from orderly.testing.fake.cluster import NAME_SERVER, FakeCluster
from tests.simulation.actors import Member, Sender
from tests.simulation.copiers import Copier, second_attempts
from tests.simulation.forgers import Forger
from tests.simulation.generations import Generations
from tests.simulation.kernel import Kernel, Stall
from tests.simulation.ledger import STATE
from tests.simulation.network import NAMESRV, Connections, Network
from tests.simulation.operators import Operator
from tests.simulation.parked import PARK
from tests.simulation.paths import observed, taken
from tests.simulation.strikes import Strikes
from tests.simulation.threads import EPOCH, installed
from tests.simulation.truth import TOPIC, Broken, Truth, forged
from tests.simulation.verdict import EXCUSES, judge_deliveries, judge_sends
from tests.simulation.witness import Witness
from tests.simulation.workers import modelled

LIMIT = 900.0  # virtual seconds within which everything is consumed once the faults are over
_RETRY = 2.0  # seconds between attempts to get a queue that is locked; 0.5 only costs time here
_UNREADABLE = 40  # of so many messages one has a body that nobody can read
_ZLIB = 0x301  # flags of a message: compressed, by zlib
_CLOSING = 120.0  # virtual seconds within which all members close


class Violation(AssertionError):
    """A promise was broken in a simulated history.

    Attributes:
        kind: which one.
        trace: what happened until then.
        paths: that were taken until then; names of `paths.PATHS`.
    """

    def __init__(self, error, trace, paths=frozenset()):
        super().__init__(str(error) or repr(error))
        self.kind = getattr(error, "kind", type(error).__name__)
        self.trace = trace
        self.paths = paths


@dataclass(frozen=True)
class Report:
    """What happened in a history.

    Attributes:
        deliveries: how often a handler was given a message.
        duplicates: those of a message that had been delivered before.
        excused: those whose order is not judged.
        restarted: whether a broker forgot its locks.
        seconds: of virtual time.
        trace: a line each.
        paths: names of `paths.PATHS` that it took.
        excuses: how often each of `verdict.EXCUSES` was needed.
    """

    deliveries: int
    duplicates: int
    excused: int
    restarted: bool
    seconds: float
    trace: tuple
    paths: frozenset
    excuses: dict


class _Log:
    """A logger that says nothing, but has the witness judge what would alarm people."""

    def __init__(self, witness, bound):
        self._witness = witness
        self._bound = bound

    def bind(self, **fields):
        return _Log(self._witness, self._bound | fields)

    def _say_nothing(self, *_, **__):
        """Nothing."""

    def warning(self, event, **fields):
        self._witness.alarmed(event, self._bound | fields)

    def info(self, event, **fields):
        if event == "message.repeat_skipped":
            self._witness.left_out(self._bound | fields)

    debug = _say_nothing
    error = exception = warning


def _put(put, seed, message, now):
    """Store a message; a few as a careless sender's, whose bodies nobody can read."""
    drawn = crc32(b"%d %s" % (seed, message.body))
    if message.topic == TOPIC and drawn % _UNREADABLE == 0:
        bad = drawn // _UNREADABLE % 2
        message = forged(message) if bad else replace(message, sys_flag=_ZLIB)
    return put(message, now)


class World:
    """The history of one scenario.

    Args:
        scenario: what is to happen.
        restless: how often a task lets others run at a lock.
    """

    def __init__(self, scenario, restless):
        self.scenario = scenario
        self.kernel = Kernel(scenario.seed, restless)
        self.began = self.kernel.now
        self.end = self.began + scenario.end
        addresses = {
            f"broker-{chr(97 + i)}": f"10.0.0.{2 + i}:10911" for i in range(scenario.brokers)
        }
        self.cluster = FakeCluster(addresses)
        self.cluster.create_topic(TOPIC, scenario.queues)
        stores = {name: broker.store.put for name, broker in self.cluster.brokers.items()}
        for name, broker in self.cluster.brokers.items():
            put = partial(second_attempts, stores[name], scenario)
            broker.store.put = partial(_put, put, scenario.seed)
            broker.store.with_id = partial(self._indexed, broker.store.with_id, name)
        servers = {address: name for name, address in addresses.items()} | {NAMESRV: NAME_SERVER}
        self.network = Network(self.kernel, self.cluster, servers)
        self.happened = Counter()  # events, as `paths` counts them
        self.truth = Truth(self.kernel, self.cluster)
        self.members = [Member(self, index) for index in range(scenario.members)]
        self.producers = [Sender(self, index) for index in range(scenario.producers)]
        self.generations = Generations(self)
        self.operator = Operator(self)
        self.forger = Forger(self)
        self.copier = Copier(self, stores)
        self.strikes = Strikes(self)
        self.witness = Witness(self)
        self.ends_at_join = {}  # by queue, when the first member started
        self.ending = False  # from when on nobody is started any more
        self._trace = []

    def play(self):
        """Run the history to its end.

        Raises:
            Violation: a promise was broken.
        """
        kernel, scenario = self.kernel, self.scenario
        if scenario.joins:
            kernel.at(self.began + scenario.joins, self._note_ends)
        for member in self.members:
            kernel.at(self.began + (scenario.joins or member.index * 0.3), member.begin)
        for producer in self.producers:
            producer.begin()
        if scenario.poison or scenario.killers:
            self.operator.begin()
        for fault in scenario.faults:
            kernel.at(self.began + fault.at, partial(self.strikes.strike, fault))
        kernel.at(self.end, self._settle)
        try:
            self._run_to_the_end()
            self.ending = True
            for member in self.members:
                if not member.closed:
                    kernel.spawn(member.close, "closing", member.process)
            kernel.run(lambda: all(m.process.dead for m in self.members), _CLOSING)
            verdict = judge_deliveries(self)
            judge_sends(self)
        except Exception as error:
            raise Violation(error, self.trace(), taken(self)) from error
        finally:
            kernel.stop()
        seconds = kernel.now - self.began
        return Report(
            deliveries=verdict.delivered,
            duplicates=verdict.duplicates,
            excused=verdict.excused,
            restarted=any(fault.kind == "broker restart" for fault in scenario.faults),
            seconds=seconds,
            trace=self.trace(),
            paths=taken(self),
            excuses={name: self.happened[name] for name in EXCUSES},
        )

    def _note_ends(self):
        truth = self.truth
        self.ends_at_join = {queue: truth.log(queue).max_offset for queue in truth.queues()}

    def _indexed(self, find, broker, topic, message_id):
        """What a broker has in its index by now, of a message id; also of a former topic."""
        until = int((EPOCH + self.kernel.now - self.scenario.index) * 1000)
        former = self.generations.indexed(broker, message_id) if topic == TOPIC else []
        return [each for each in former + find(topic, message_id) if each.store_ms <= until]

    def add_producer(self):
        """One more producer begins, with keys of its own."""
        self.producers.append(Sender(self, len(self.producers)))
        self.producers[-1].begin()

    def _run_to_the_end(self):
        """Until everything is consumed, or nothing more comes of it."""
        try:
            self.kernel.run(self._all_done, self.scenario.end + LIMIT)
        except Stall as stall:
            if self.scenario.forged and self.witness.told_of_stops():
                return
            for queue in self.truth.queues():
                stored = self.truth.stored(queue)
                log = self.truth.log(queue)
                left = self.truth.unfinished if self.scenario.forged else self.truth.unsettled
                passed = left(queue, min(stored, log.max_offset))
                if passed:
                    text = f"{passed} of {queue}: {stored} is committed of {log.max_offset}"
                    raise Broken("never delivered", text) from stall
            raise

    def _settle(self):
        """The faults are over; members that keep messages get a handler that commits them."""
        self.note("the faults are over")
        for member in self.members:
            if member.running and self.witness.kept.of(member.process):
                leave = partial(member.leave, 1.0)
                self.kernel.spawn(leave, "a new handler", member.process)

    def _all_done(self):
        return (
            self.kernel.now >= self.end
            and all(producer.done for producer in self.producers)
            and all(member.running for member in self.members)
            and not self.network.unread
            and all(map(self.truth.consumed, self.truth.queues()))
            and all(map(self.truth.owner, self.truth.queues()))
            and not any(map(self.witness.ledger.parked.keys, self.truth.queues()))
            and self._keeps_records()
        )

    def _keeps_records(self):
        """Whether the topics of the state are there; who deletes them does not do so for ever."""
        if dict(self.scenario.settings)["order"] != "key":
            return True
        brokers = self.cluster.brokers.values()
        return all(state.topics.get(topic) for topic in (STATE, PARK) for state in brokers)

    def note(self, *what):
        """Remember for the trace."""
        at = self.kernel.now - self.began
        self._trace.append(f"{at:10.4f}  {' '.join(map(str, what))}")

    def trace(self):
        """What happened, a line each."""
        return tuple(self._trace)


def run(scenario, restless=0.05):
    """Run one scenario; returns its Report.

    Raises:
        Violation: a promise was broken.
    """
    world = World(scenario, restless)
    ids = iter(range(1, 10_000))

    def new_client_id(_):
        return f"10.0.1.1@1#{next(ids):08x}"

    with (
        installed(world.kernel),
        modelled(world),
        observed(world),
        mock.patch.object(client_module, "Connections", partial(Connections, world.network)),
        mock.patch.object(client_module, "_new_client_id", new_client_id),
        # A signal ends none of a history's consumers, nor does the end of this process.
        mock.patch.object(runtime, "_STARTED", set()),
        mock.patch.object(at_exit, "_OPEN", {}),
        mock.patch.object(rebalancer, "RETRY_SOON", _RETRY),
        mock.patch.object(lanes, "LANE_BODIES", scenario.bodies),
        mock.patch.object(lanes, "SUSPENDED_BODIES", max(1, scenario.bodies // 8)),
        mock.patch.object(log._AtFirstEvent, "_may_be_wanted", return_value=True),
        mock.patch.object(
            log._AtFirstEvent, "_logger", property(lambda made: _Log(world.witness, made._bound))
        ),
    ):
        return world.play()
