"""Who may be struck in a history, and faults of each kind, of lengths that matter."""

from tests.simulation.scenario import (
    COMMIT,
    LOCK,
    MEMBERS,
    PULL,
    QUERY,
    SEND,
    UNLOCK,
    Fault,
)

_CODES = (LOCK, UNLOCK, COMMIT, QUERY, PULL, MEMBERS, SEND)


class Cast:
    """Who may be struck, and the draws that plots share."""

    def __init__(self, rng, members, producers, brokers):
        self.rng = rng
        self.members = members
        self._producers = producers
        self._brokers = brokers

    def member(self):
        return f"member {self.rng.randrange(self.members)}"

    def producer(self):
        return f"producer {self.rng.randrange(self._producers)}"

    def broker(self):
        return f"broker {self.rng.randrange(self._brokers)}"

    def fault(self, kind, at):
        """A fault of this kind, of a length that matters."""
        return getattr(self, "_" + kind.replace(" ", "_"))(at)

    def _kill(self, at):
        return Fault(at, "kill", self.member(), self.rng.choice([1.0, 10.0, 50.0]))

    def _kill_at(self, at):
        armed = self.rng.choice([5.0, 20.0])
        return Fault(at, "kill at", self.member(), armed, self.rng.choice([SEND, SEND, COMMIT]))

    def _pause_at(self, at):
        rng = self.rng
        seconds, code = rng.choice([12.0, rng.uniform(61, 72)]), rng.choice([QUERY, SEND, COMMIT])
        return Fault(at, "pause at", self.member(), seconds, code)

    def _blind_start(self, at):
        return Fault(at, "blind start", self.member(), self.rng.uniform(1, 20))

    def _isolate(self, at):
        return Fault(at, "isolate", self.member(), self.rng.choice([10.0, 35.0, 70.0]))

    def _close(self, at):
        return Fault(at, "close", self.member(), self.rng.uniform(0.1, 20))

    def _pause(self, at):
        rng = self.rng
        seconds = rng.choice([rng.uniform(0.1, 5), rng.uniform(29, 40), rng.uniform(58, 75)])
        return Fault(at, "pause", self.member(), seconds)

    def _cut(self, at):
        return Fault(at, "cut", self.rng.choice([self.member(), self.producer()]))

    def _partition(self, at):
        rng = self.rng
        return Fault(at, "partition", self.member(), rng.choice([5.0, 31.0, rng.uniform(58, 70)]))

    def _slow_network(self, at):
        who = self.rng.choice([self.member(), self.producer()])
        return Fault(at, "slow network", who, self.rng.uniform(0.5, 20))

    def _lose_answers(self, at):
        return Fault(at, "lose answers", self.member(), self._long(), self.rng.choice(_CODES))

    def _lose_requests(self, at):
        return Fault(at, "lose requests", self.member(), self._long(), self.rng.choice(_CODES))

    def _long(self):
        return self.rng.choice([5.0, 20.0, 62.0])

    def _broker_restart(self, at):
        return Fault(at, "broker restart", self.broker(), self.rng.choice([0.1, 3.0, 20.0]))

    def _broker_kill(self, at):
        return Fault(at, "broker kill", self.broker(), self.rng.choice([0.1, 3.0, 20.0]))

    def _broker_freeze(self, at):
        return Fault(at, "broker freeze", self.broker(), self.rng.choice([1.0, 8.0, 33.0, 62.0]))

    def _name_server_down(self, at):
        return Fault(at, "name server down", "", self.rng.uniform(1, 40))

    def _grow(self, at):
        return Fault(at, "grow")

    def _program_pause(self, at):
        return Fault(at, "program pause", self.member(), self.rng.choice([1.0, 10.0, 45.0]))

    def _key_pause(self, at):
        return Fault(at, "key pause", self.member(), self.rng.choice([1.0, 10.0, 45.0]))

    def _seek(self, at):
        return Fault(at, "seek", self.member(), code=self.rng.choice([0, 50, 90, 150, 200]))


KINDS = (
    "kill", "kill at", "close", "blind start", "isolate", "pause", "pause at", "cut", "partition",
    "slow network", "lose answers", "lose requests", "broker restart", "broker kill",
    "broker freeze",
    "name server down", "grow",
)  # fmt: skip
