"""A schedule whose timers ring when the test says so."""


class Timers:
    """Takes the place of `remoting.schedule.Schedule`; `waiting` holds (seconds, work)."""

    def __init__(self):
        self.waiting = []

    def after(self, seconds, work):
        self.waiting.append((seconds, work))

    @property
    def seconds(self):
        return [seconds for seconds, _ in self.waiting]

    def ring(self):
        """Let the newest one ring."""
        _, work = self.waiting.pop()
        work()
