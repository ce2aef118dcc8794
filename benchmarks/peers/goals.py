"""What is aimed at, and whether it was met."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound of one figure; for bodies of both sizes.

    Attributes:
        name: as in the JSON.
        bound: the least, or the most, it may be.
        at_least: which of them.
    """

    name: str
    bound: float
    at_least: bool = True

    def met(self, value: float) -> bool:
        """Whether the figure keeps the bound."""
        return value >= self.bound if self.at_least else value <= self.bound

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.bound:g}"


GOALS = {
    goal.name: goal
    for goal in (
        Goal("consume_vs_java", 0.8),
        Goal("consume_cpu_vs_java", 0.9, at_least=False),
        Goal("consume_by_key_vs_queue", 0.85),
        Goal("compiled_vs_java", 1.1),
        Goal("compiled_cpu_vs_java", 0.6, at_least=False),
        Goal("compiled_by_key_vs_queue", 0.85),
        Goal("compiled_vs_ours", 1.3),
        Goal("consume_vs_native", 8.0),
        Goal("consume_vs_grpc", 60.0),
        Goal("consume_vs_floor", 0.8),
        Goal("consume_two_processes_vs_one", 1.7),
        Goal("rss_mib", 50.0, at_least=False),
        Goal("first_message_seconds", 0.3, at_least=False),
        Goal("send_sync_vs_java", 1.0),
        Goal("send_sync_cpu_vs_java", 0.7, at_least=False),
        Goal("send_sync_vs_native", 1.6),
        Goal("send_batch_vs_java_async", 4.0),
        Goal("hot_key_batch_vs_sync", 10.0),
        Goal("inversions", 0, at_least=False),
        Goal("latency_p50_vs_java", 1.1, at_least=False),
        Goal("latency_p99_vs_java", 1.1, at_least=False),
        Goal("compiled_latency_p50_vs_java", 1.1, at_least=False),
        Goal("compiled_latency_p99_vs_java", 1.1, at_least=False),
        Goal("load_p99_vs_java", 1.1, at_least=False),
        Goal("load_by_key_p99_vs_java", 1.0, at_least=False),
    )
}
SUFFIXES = {128: "", 1024: "_1k"}  # of a figure's name, by the size of the bodies


def goal_of(name: str) -> Goal | None:
    """The goal of a figure, whatever the size of the bodies."""
    return GOALS.get(name.removesuffix("_1k"))


def judged(figures: dict) -> dict:
    """Figure -> whether its goal was met; only of those that have a goal and were measured."""
    return {
        name: goal.met(value)
        for name, value in figures.items()
        if value is not None and (goal := goal_of(name))
    }
