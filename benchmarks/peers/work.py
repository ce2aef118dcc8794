"""The parts: which programs do the same work, and with how many messages.

Of each pair of numbers the second one says how many messages are not timed. They are those of a
backlog of 200,000; slow peers get fewer, so that a round ends.
"""

from benchmarks.peers.bench import new_group
from benchmarks.peers.parts import Part, Ratio

CONSUMED = 200_000, 20_000
SENT = 30_000, 10_000
SUBMITTED = 220_000, 20_000
SENT_BY_JAVA_64 = 80_000, 20_000
TIMED = 20_000, 10_000
RATE = 1_000  # messages per second, where latency is measured
NUMBERED = 1_000_000


def consume(bench, size):
    topic = bench.backlog(size)

    def side(peer, work, numbers):
        return lambda: bench.run(
            peer, work, bench.namesrv, new_group(), topic, *bench.scaled(*numbers)
        )

    return {
        "ours": side("ours", "consume", CONSUMED),
        "java": side("java", "Consume", CONSUMED),
        "floor": lambda: bench.run(
            "floor", "consume", bench.broker.broker_address, topic, *bench.scaled(*CONSUMED)
        ),
    }


def send(bench, size):
    topic = bench.topic()

    def side(peer, work, numbers, where=bench.namesrv, *more):
        return lambda: bench.run(peer, work, where, topic, *bench.scaled(*numbers), size, *more)

    return {
        "ours": side("ours", "send", SENT),
        "java": side("java", "Send", SENT, bench.namesrv, 1),
        "floor": side("floor", "send", SENT, bench.broker.broker_address),
    }


def batch(bench, size):
    topic = bench.topic()

    def side(peer, work, numbers, *more):
        return lambda: bench.run(
            peer, work, bench.namesrv, topic, *bench.scaled(*numbers), size, *more
        )

    return {
        "ours": side("ours", "submit", SUBMITTED),
        "java_async": side("java", "Send", SENT_BY_JAVA_64, 64),
        "ours_hot": side("ours", "submit", SUBMITTED, "hot"),
        "ours_hot_sync": side("ours", "send", SENT, "hot"),
    }


def latency(bench, size):
    def side(peer, work):
        return lambda: bench.run(
            peer, work, bench.namesrv, new_group(), bench.topic(), *bench.scaled(*TIMED), size, RATE
        )

    return {"ours": side("ours", "latency"), "java": side("java", "Latency")}


COSTS = ("rate", "cpu", "rss_mib")

PARTS = {
    part.name: part
    for part in (
        Part(
            "consume",
            "a backlog consumed in order by a handler that does nothing, one process",
            (*COSTS, "first_message"),
            (
                Ratio("consume_vs_java", "ours", "java"),
                Ratio("consume_cpu_vs_java", "ours", "java", "cpu"),
                Ratio("consume_vs_native", "ours", "native"),
                Ratio("consume_vs_grpc", "ours", "grpc"),
                Ratio("consume_vs_floor", "ours", "floor"),
            ),
            consume,
        ),
        Part(
            "send",
            "messages sent one after the other, one thread",
            COSTS,
            (
                Ratio("send_sync_vs_java", "ours", "java"),
                Ratio("send_sync_cpu_vs_java", "ours", "java", "cpu"),
                Ratio("send_sync_vs_native", "ours", "native"),
                Ratio("send_sync_vs_grpc", "ours", "grpc"),
                Ratio("send_sync_vs_floor", "ours", "floor"),
            ),
            send,
        ),
        Part(
            "batch",
            "messages submitted; Java: 64 in flight",
            COSTS,
            (
                Ratio("send_batch_vs_java_async", "ours", "java_async"),
                Ratio("send_batch_cpu_vs_java_async", "ours", "java_async", "cpu"),
                Ratio("hot_key_batch_vs_sync", "ours_hot", "ours_hot_sync"),
            ),
            batch,
        ),
        Part(
            "latency",
            f"from send to handler, sent one after the other at {RATE:,} messages/s",
            ("p50", "p90", "p99", "cpu", "rss_mib"),
            (
                Ratio("latency_p50_vs_java", "ours", "java", "p50"),
                Ratio("latency_p90_vs_java", "ours", "java", "p90"),
                Ratio("latency_p99_vs_java", "ours", "java", "p99"),
            ),
            latency,
            rounds=3,
        ),
    )
}
