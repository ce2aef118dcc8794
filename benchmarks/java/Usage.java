import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/**
 * Counts messages and times those after the first warm ones, as `programs/meter.py` does; and what
 * else the programs share.
 */
final class Usage {
    static final int KEYS = 1000;
    static final long TIMEOUT_SECONDS = 150;
    private static final double NANOS = 1e9;
    private static final OperatingSystemMXBean SYSTEM =
        ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class);

    private final AtomicInteger finished = new AtomicInteger();
    private final CountDownLatch done = new CountDownLatch(1);
    private final int count;
    private final int warm;
    private volatile double firstAt;
    private volatile long startedNanos;
    private volatile double startedCpu;
    private volatile double seconds;
    private volatile double cpu;

    Usage(int count, int warm) {
        this.count = count;
        this.warm = warm;
    }

    void tick() {
        int number = finished.incrementAndGet();
        if (number == 1) {
            firstAt = System.currentTimeMillis() / 1000.0;
        }
        if (number == warm) {
            startedNanos = System.nanoTime();
            startedCpu = cpuSeconds();
        } else if (number == count) {
            seconds = (System.nanoTime() - startedNanos) / NANOS;
            cpu = cpuSeconds() - startedCpu;
            done.countDown();
        }
    }

    /** Waits for the last message and prints the line; returns whether it came in time. */
    void tell() throws Exception {
        if (!done.await(TIMEOUT_SECONDS, TimeUnit.SECONDS)) {
            fail(finished.get() + " of " + count + " messages within the time");
        }
        print("\"messages\": " + (count - warm) + ", \"seconds\": " + seconds
            + ", \"cpu_seconds\": " + cpu + ", \"first_at\": " + String.format(Locale.ROOT, "%.3f", firstAt));
    }

    static double cpuSeconds() {
        return SYSTEM.getProcessCpuTime() / NANOS;
    }

    static void print(String fields) throws Exception {
        System.out.println("{" + fields + ", \"rss_mib\": " + mostMemory() + "}");
        System.out.flush();
    }

    /** The field of the line with the nanoseconds of each message that is timed. */
    static String latencies(long[] nanos, int warm) {
        return "\"latencies_ns\": [" + LongStream.of(nanos).skip(warm)
            .mapToObj(String::valueOf).collect(Collectors.joining(", ")) + "]";
    }

    /** Starts a consumer of args[2] in group args[1], by the name server args[0]. */
    static DefaultMQPushConsumer consumer(String[] args, MessageListenerOrderly listener)
        throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[1]);
        consumer.setNamesrvAddr(args[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(args[2], "*");
        consumer.registerMessageListener(listener);
        consumer.start();
        return consumer;
    }

    /** Waits until a moment of System.nanoTime. */
    static void await(long nanos) {
        for (long left; (left = nanos - System.nanoTime()) > 0; ) {
            LockSupport.parkNanos(left);
        }
    }

    static void fail(String why) {
        System.err.println(why);
        Runtime.getRuntime().halt(1);
    }

    /** Ends the process at once: the client leaves a thread behind that would keep it. */
    static void end() {
        Runtime.getRuntime().halt(0);
    }

    static byte[] body(int size) {
        return new Random(size).ints(size, 'a', 'z' + 1)
            .collect(StringBuilder::new, StringBuilder::appendCodePoint, StringBuilder::append)
            .toString().getBytes(StandardCharsets.US_ASCII);
    }

    static String key(int number) {
        return "key-" + number % KEYS;
    }

    private static double mostMemory() throws Exception {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmHWM")) {
                return Long.parseLong(line.replaceAll("\\D", "")) / 1024.0;
            }
        }
        throw new IllegalStateException("no VmHWM in /proc/self/status");
    }
}
