"""An operator, who has keys parked, released, dropped or tried. What it sends is real."""

from orderly import Client, ClientConfig
from orderly.errors import OrderlyError
from orderly.protocol.park_record import Command, Verb, control_message, park_request
from orderly.protocol.record_format import Seal
from tests.simulation.kernel import Process
from tests.simulation.network import NAMESRV
from tests.simulation.parked import PARK, park_queue
from tests.simulation.scenario import TWICE, UNKNOWN
from tests.simulation.threads import EPOCH
from tests.simulation.truth import GROUP

_ROUND = 2.0  # seconds between two looks at what is parked, in the end
_AGAIN = 20.0  # the same, where it is not known what is parked
_PATIENCE = 60.0  # seconds until a command that was not answered is given again


class Operator:
    """A process that writes commands: as the faults say, and in the end until nothing is parked.

    Args:
        world: has `kernel`, `truth`, `witness` and `end`.
    """

    def __init__(self, world):
        self._world = world
        self._kernel = world.kernel
        self._process = Process("operator")
        self._client = None
        self._given = {}  # when each key's last release was sent, in the end
        self._number = 0

    def begin(self):
        """Start the process."""
        self._kernel.spawn(self._main, "operator", self._process)

    def act(self, verb, code):
        """Give a command about one of the parked keys, or about any."""
        if self._client is None:
            return
        if verb in (Verb.ADD, Verb.LOOK):
            known = self._known(waiting=code != UNKNOWN)
        else:
            known = self._known() if code == UNKNOWN else list(self._parked())
        queue, key = self._kernel.random.choice(known or [(self._any_queue, "nobody's")])
        self._kernel.spawn(
            lambda: self._give(verb, queue, key, twice=code == TWICE), "command", self._process
        )

    @property
    def _any_queue(self):
        return next(self._world.truth.queues())

    def _known(self, *, waiting=False):
        """All keys of messages by now, or those that wait; few of them are parked."""
        truth = self._world.truth
        known = {
            (queue, truth.key(queue, offset))
            for queue in truth.queues()
            for offset in range(truth.log(queue).max_offset)
            if not waiting or offset not in truth.finished[queue]
        }
        return sorted(place for place in known if place[1] is not None)

    def _parked(self):
        if self._world.scenario.forged:  # nobody can tell by the records
            return self._known(waiting=True)
        parked = self._world.witness.ledger.parked
        return ((queue, key) for queue in self._world.truth.queues() for key in parked.keys(queue))

    def _main(self):
        self._client = Client(ClientConfig(namesrv=NAMESRV))
        self._kernel.sleep(max(0.0, self._world.end - self._kernel.now))
        while True:
            for queue, key in self._parked():
                if self._is_due(queue, key):
                    self._given[queue, key] = self._kernel.now
                    self._give(Verb.RELEASE, queue, key, twice=False)
            self._kernel.sleep(_ROUND)

    def _is_due(self, queue, key):
        given = self._given.get((queue, key), 0.0)
        if self._world.scenario.forged:
            return self._kernel.now - given > _AGAIN
        commands = self._world.witness.ledger.parked.open_commands(queue)
        # An older one may have been passed over: by an owner that found no records.
        since = int((EPOCH + given) * 1000) if given else 0
        if not any(command.key == key and command.at_ms >= since for _, command in commands):
            return True
        return self._kernel.now - given > _PATIENCE

    def _give(self, verb, queue, key, *, twice):
        self._number += 1
        at = EPOCH + self._kernel.now
        command = Command(f"command-{self._number}", verb, key, "operator", int(at * 1000))
        place = park_queue(queue)
        seal = Seal(GROUP, self._world.scenario.secrets)
        brokers = self._world.cluster.brokers
        newest = brokers[queue.broker_name].store.log(PARK, queue.queue_id).max_offset - 1
        line = control_message(command)
        request = park_request(GROUP, place, line, at, seal=seal, newest=newest)
        for _ in range(1 + twice):
            try:
                self._client.brokers.send_now(place, request)
            except OrderlyError as error:
                self._world.note("operator", "is not heard:", error)
                self._client.routes.forget(place.topic)  # a person's next command asks anew
