"""Rates on one queue: a handler that waits, one that computes, one that does nothing."""

import asyncio
import time

from benchmarks import java_orderly
from benchmarks.lane_backlog import Meter, async_noop, drain, fill, noop
from benchmarks.rounds import Part, interleaved
from orderly import ConsumeResult, ConsumerHooks

IO_SECONDS = 0.005
ASYNC_IN_FLIGHT = 100  # as many as there are keys
WORKERS = 2
LOOPS = 20_000  # about 1 ms of Python on the machine the figures come from


def waiting(meter):
    """A handler that waits as if for a database."""

    def handle(messages, context):
        time.sleep(IO_SECONDS)
        meter.tick()
        return ConsumeResult.SUCCESS

    return handle


def async_waiting(meter):
    """The same as a coroutine."""

    async def handle(messages, context):
        await asyncio.sleep(IO_SECONDS)
        meter.tick()
        return ConsumeResult.SUCCESS

    return handle


def computing(messages, context):
    """A handler that computes; importable, for worker processes."""
    sum(number & 7 for number in range(LOOPS))
    return ConsumeResult.SUCCESS


def io(setting, share):
    """5 ms of waiting for each message: the Java client, our order by queue, our lanes."""
    few, threads, coroutines = (int(count * share) for count in (600, 8_000, 12_000))
    topic = fill(setting, coroutines)

    def ours(handler, count, **config):
        meter = Meter(count)
        return drain(setting, topic, handler(meter), meter, **config)

    with java_orderly.compiled() as command:
        sleep_ms = round(IO_SECONDS * 1000)
        sides = {
            "java_orderly": lambda: java_orderly.rate(
                command, setting.namesrv, topic, few, sleep_ms
            ),
            "queue": lambda: ours(waiting, few),
            "lanes": lambda: ours(waiting, threads, order="key"),
            "async_lanes": lambda: ours(
                async_waiting, coroutines, order="key", concurrency=ASYNC_IN_FLIGHT
            ),
        }
        values = interleaved("io", sides, setting.rounds)
    ratios = {
        "lanes_vs_java_orderly": ("lanes", "java_orderly"),
        "async_lanes_vs_java_orderly": ("async_lanes", "java_orderly"),
    }
    return [Part("io", "5 ms of waiting, 100 keys, one queue", "messages/s", values, ratios)]


def cpu(setting, share):
    """About 1 ms of computing for each message: where processes help and threads cannot."""
    count = int(3_000 * share)
    topic = fill(setting, count)

    def ours(**config):
        meter = Meter(count)
        hooks = ConsumerHooks(after=lambda *_: meter.tick())  # a worker process cannot reach it
        return drain(setting, topic, computing, meter, hooks, concurrency=WORKERS, **config)

    sides = {
        "queue": lambda: ours(order="queue"),
        "lanes": lambda: ours(order="key"),
        "process_lanes": lambda: ours(order="key", executor="process"),
    }
    values = interleaved("cpu", sides, setting.rounds)
    ratios = {"process_lanes_vs_queue": ("process_lanes", "queue")}
    title = f"{LOOPS:,} turns of a Python loop, {WORKERS} at once"
    return [Part("cpu", title, "messages/s", values, ratios)]


def idle(setting, share):
    """A handler that does nothing: what lanes cost by themselves, also in time of the processor."""
    count = int(50_000 * share)
    topic = fill(setting, count)
    costs = {}

    def ours(side, handler, **config):
        meter = Meter(count)
        rate = drain(setting, topic, handler(meter), meter, **config)
        costs.setdefault(side, []).append(meter.cpu)
        return rate

    sides = {
        "queue": lambda: ours("queue", noop),
        "lanes": lambda: ours("lanes", noop, order="key"),
        "async_lanes": lambda: ours("async_lanes", async_noop, order="key"),
    }
    values = interleaved("noop", sides, setting.rounds)
    title = "a handler that does nothing, one queue"
    ratios = {
        "noop_lanes_vs_queue": ("lanes", "queue"),
        "async_noop_lanes_vs_queue": ("async_lanes", "queue"),
    }
    cpu_ratios = {
        "noop_lanes_cpu_vs_queue": ("lanes", "queue"),
        "async_noop_lanes_cpu_vs_queue": ("async_lanes", "queue"),
    }
    return [
        Part("noop", title, "messages/s", values, ratios),
        Part("noop_cpu", f"{title}: our process", "us of CPU/message", costs, cpu_ratios),
    ]
