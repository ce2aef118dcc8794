"""10,000 keys whose handler waits 1 ms as a coroutine, beside what arithmetic allows."""

import asyncio
from functools import partial

from benchmarks.lane_backlog import Meter, async_noop, drain
from benchmarks.rounds import Part, interleaved
from benchmarks.scale_parts import backlog
from orderly import ConsumeResult

IO_SECONDS = 0.001
KEYS = 10_000
QUEUES = 8
IN_FLIGHT = (20, 100, 1_000)  # 20 is the default


def waiting(meter):
    """A handler that waits for 1 ms."""

    async def handle(messages, context):
        await asyncio.sleep(IO_SECONDS)
        meter.tick()
        return ConsumeResult.SUCCESS

    return handle


def many_keys(setting, share):
    """Rates with 20, 100 and 1,000 coroutines at once, and with a handler that does not wait."""
    count = int(50_000 * share)
    topic = backlog(setting, QUEUES, count, KEYS)

    costs = {}

    def side(name, handler, in_flight):
        meter = Meter(count)
        rate = drain(setting, topic, handler(meter), meter, order="key", concurrency=in_flight)
        costs.setdefault(name, []).append(meter.cpu)
        return rate

    sides = {_named(n): partial(side, _named(n), waiting, n) for n in IN_FLIGHT}
    sides["no waiting"] = partial(side, "no waiting", async_noop, IN_FLIGHT[-1])
    values = interleaved("async", sides, setting.rounds)
    # Neither more than so many in each ms, nor more than the same machine does without waiting.
    ideals = {
        f"at most, {_named(n)}": [min(n / IO_SECONDS, rate) for rate in values["no waiting"]]
        for n in IN_FLIGHT
    }
    ratios = {
        f"async_{n}_in_flight_vs_ideal": (_named(n), f"at most, {_named(n)}") for n in IN_FLIGHT
    }
    title = f"1 ms of asyncio.sleep, {KEYS:,} keys, {QUEUES} queues"
    return [
        Part("async", title, "messages/s", values | ideals, ratios),
        Part("async_cpu", f"{title}: our process", "us of CPU/message", costs, {}),
    ]


def _named(in_flight):
    return f"{in_flight:,} at once"
