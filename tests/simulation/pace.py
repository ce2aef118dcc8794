"""How fast messages begin, where a consumer's rate is limited, or that of a key."""

from collections import defaultdict

from orderly.ordering.rate import AT_ONCE
from tests.simulation.truth import Broken

_LATE = 1.0  # seconds for which a call may begin after its permit was granted


class Pace:
    """Compares each call with those before it.

    Args:
        world: has `kernel` and `scenario`.
    """

    def __init__(self, world):
        settings = dict(world.scenario.settings)
        self._kernel = world.kernel
        self._rate, self._per_key = settings.get("max_rate"), settings.get("max_rate_per_key")
        self._in_work = settings["concurrency"] * settings["batch_size"]
        self._begun = defaultdict(list)  # by process: (when, how many messages)
        self._last = {}  # by process and lane

    def begins(self, member, lane, count):
        """A handler is called with messages of a lane.

        Raises:
            Broken: too soon.
        """
        now, process = self._kernel.now, member.process
        if self._rate:
            self._begun[process].append((now, count))
            self._check_rate(member, now)
        if self._per_key:
            at, before = self._last.get((process, lane), (now, 0))
            slept = process.paused_until > at
            if now + _LATE < at + before / self._per_key and not slept:
                raise Broken("faster than its key's rate", f"{member}: {lane} after {now - at} s")
            self._last[process, lane] = now, count

    def _check_rate(self, member, now):
        """What was granted may begin late, together with what comes next: all that is in work."""
        most, total = max(1.0, self._rate * AT_ONCE) + self._in_work, 0
        for at, count in reversed(self._begun[member.process]):
            total += count
            if total > most + (now - at) * self._rate:
                raise Broken("faster than its rate", f"{member}: {total} in {now - at} s")

    def taken(self, member, queue):
        """A queue is taken anew: its lanes are new ones."""
        for process, lane in list(self._last):
            if process is member.process and lane[0] == queue:
                del self._last[process, lane]
