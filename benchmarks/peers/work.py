"""The parts: which programs do the same work, and with how many messages.

Of each pair of numbers the second one says how many messages are not timed. They are those of a
backlog of 200,000; slow peers get fewer, so that a round ends.
"""

from benchmarks.peers.bench import new_group
from benchmarks.peers.members import together
from benchmarks.peers.parts import Part, Ratio

CONSUMED = 200_000, 20_000
CONSUMED_BY_NATIVE = 60_000  # not in proportion: what fits into its cache shows no stalls
CONSUMED_BY_GRPC = 4_000, 400
SENT = 30_000, 10_000
SENT_BY_NATIVE = 12_000, 2_000
SENT_BY_GRPC = 2_400, 400
SUBMITTED = 220_000, 20_000
SENT_BY_JAVA_64 = 80_000, 20_000
TIMED = 20_000, 10_000
RATE = 1_000  # messages per second, where latency is measured
LOADED = 40_000, 10_000
LOAD, WAIT = 2_000, 1  # messages per second; milliseconds of a handler that does some I/O
NUMBERED = 1_000_000


def consume(bench, size):
    topic = bench.backlog(size)

    def side(peer, work, *order):
        return lambda: bench.run(
            peer, work, bench.namesrv, new_group(), topic, *bench.scaled(*CONSUMED), *order
        )

    def floor():
        return bench.run(
            "floor", "consume", bench.broker.broker_address, topic, *bench.scaled(*CONSUMED)
        )

    def native():
        count = min(CONSUMED_BY_NATIVE, bench.count)
        return bench.run("native", "consume", bench.namesrv, new_group(), topic, count, count // 5)

    def grpc():
        count, warm = bench.scaled(*CONSUMED_BY_GRPC)
        fifo = bench.backlog(size, count, "FIFO")
        return bench.run("grpc", "consume", bench.proxy, bench.ordered_group(), fifo, count, warm)

    return {
        "ours": side("ours", "consume"),
        "ours_by_key": side("ours", "consume", "key"),
        "compiled": side("compiled", "consume"),
        "compiled_by_key": side("compiled", "consume", "key"),
        "java": side("java", "Consume"),
        "floor": floor,
        "native": native,
        "grpc": grpc,
    }


def processes(bench, size):
    topic = bench.backlog(size)
    return {
        "ours": lambda: together(bench, topic, new_group(), 1),
        "ours_two": lambda: together(bench, topic, new_group(), 2),
    }


def send(bench, size):
    topic, fifo = bench.topic(), bench.topic("FIFO")

    def side(peer, work, where, to, numbers, *more):
        return lambda: bench.run(peer, work, where, to, *bench.scaled(*numbers), size, *more)

    return {
        "ours": side("ours", "send", bench.namesrv, topic, SENT),
        "java": side("java", "Send", bench.namesrv, topic, SENT, 1),
        "floor": side("floor", "send", bench.broker.broker_address, topic, SENT),
        "native": side("native", "send", bench.namesrv, topic, SENT_BY_NATIVE),
        "grpc": side("grpc", "send", bench.proxy, fifo, SENT_BY_GRPC),
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

    return {
        "ours": side("ours", "latency"),
        "compiled": side("compiled", "latency"),
        "java": side("java", "Latency"),
    }


def load(bench, size):
    def side(peer, work, *order):
        return lambda: bench.run(
            peer, work, bench.namesrv, new_group(), bench.topic(), *bench.scaled(*LOADED), size,
            LOAD, WAIT, *order,
        )  # fmt: skip

    return {
        "ours": side("ours", "load", "queue"),
        "ours_by_key": side("ours", "load", "key"),
        "java": side("java", "Load"),
    }


def inversions(bench, size):
    """Submit messages that count up, read them back, and compare the order within each key."""

    def ours():
        topic, (count,) = bench.topic(), bench.scaled(NUMBERED)
        bench.run("ours", "numbered", bench.namesrv, topic, count)
        return bench.run("floor", "check", bench.broker.broker_address, topic, count)

    return {"ours": ours}


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
                Ratio("consume_by_key_vs_queue", "ours_by_key", "ours"),
                Ratio("compiled_vs_java", "compiled", "java"),
                Ratio("compiled_cpu_vs_java", "compiled", "java", "cpu"),
                Ratio("compiled_by_key_vs_queue", "compiled_by_key", "compiled"),
                Ratio("compiled_vs_ours", "compiled", "ours"),
                Ratio("compiled_by_key_vs_ours_by_key", "compiled_by_key", "ours_by_key"),
            ),
            consume,
            share=3.0,
        ),
        Part(
            "processes",
            "the same backlog, by one and by two processes of one group",
            COSTS,
            (Ratio("consume_two_processes_vs_one", "ours_two", "ours"),),
            processes,
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
            share=2.0,
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
            share=1.5,
        ),
        Part(
            "latency",
            f"from send to handler, sent one after the other at {RATE:,} messages/s",
            ("p50", "p90", "p99", "cpu", "rss_mib"),
            (
                Ratio("latency_p50_vs_java", "ours", "java", "p50"),
                Ratio("latency_p90_vs_java", "ours", "java", "p90"),
                Ratio("latency_p99_vs_java", "ours", "java", "p99"),
                Ratio("compiled_latency_p50_vs_java", "compiled", "java", "p50"),
                Ratio("compiled_latency_p99_vs_java", "compiled", "java", "p99"),
            ),
            latency,
            rounds=3,
            share=2.0,
        ),
        Part(
            "load",
            f"Zipf-distributed keys due at {LOAD:,} messages/s, a handler that waits {WAIT} ms:"
            " from when a message was due to its handler; a side that breaks the order has no row",
            ("p50", "p90", "p99", "cpu", "rss_mib"),
            (
                Ratio("load_p50_vs_java", "ours", "java", "p50"),
                Ratio("load_p99_vs_java", "ours", "java", "p99"),
                Ratio("load_by_key_p99_vs_java", "ours_by_key", "java", "p99"),
                Ratio("load_by_key_cpu_vs_java", "ours_by_key", "java", "cpu"),
            ),
            load,
            rounds=3,
            sizes=(1024,),
            share=2.0,
        ),
        Part(
            "inversions",
            "messages submitted, read back, and compared within each key",
            ("messages", "inversions", "repeats"),
            (),
            inversions,
            rounds=1,
            sizes=(128,),
        ),
    )
}
