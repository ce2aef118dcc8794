import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Sends Zipf-distributed keys at an even pace, and consumes them in this process with a listener that
 * waits: nanoseconds from the moment each message was due to its listener. Fails if a key's messages
 * come out of order. Each key has one of several sending threads, so that its order is kept.
 *
 * Arguments: name server, group, topic, messages, how many of them are not timed, bytes of body,
 * messages per second, milliseconds that the listener waits.
 */
public final class Load {
    private static final double NANOS = 1e9;
    private static final int SENDERS = 4;

    private final String[] args;
    private final int count;
    private final int[] keys;
    private final long[] due;
    private final long[] latencies;
    private final AtomicInteger arrived = new AtomicInteger();
    private final AtomicInteger inversions = new AtomicInteger();
    private final ConcurrentHashMap<Integer, Integer> latest = new ConcurrentHashMap<>();
    private final CountDownLatch done = new CountDownLatch(1);

    private Load(String[] args) {
        this.args = args;
        count = Integer.parseInt(args[3]);
        keys = zipf(count);
        due = new long[count];
        latencies = new long[count];
    }

    public static void main(String[] args) throws Exception {
        new Load(args).run();
        Usage.end();
    }

    private void run() throws Exception {
        int warm = Integer.parseInt(args[4]);
        double pause = NANOS / Double.parseDouble(args[6]);
        DefaultMQPushConsumer consumer = consumer(Long.parseLong(args[7]));
        DefaultMQProducer producer = new DefaultMQProducer("peers-load");
        producer.setNamesrvAddr(args[0]);
        producer.start();
        long start = System.nanoTime();
        for (int i = 0; i < count; i++) {
            due[i] = start + (long) (i * pause);
        }
        List<Thread> senders = new ArrayList<>();
        for (int n = 0; n < SENDERS; n++) {
            int own = n;
            senders.add(new Thread(() -> send(producer, own)));
        }
        senders.forEach(Thread::start);
        Usage.await(due[warm]);
        double cpu = Usage.cpuSeconds();
        if (!done.await(Usage.TIMEOUT_SECONDS, TimeUnit.SECONDS)) {
            Usage.fail(arrived.get() + " of " + count + " messages arrived");
        }
        cpu = Usage.cpuSeconds() - cpu;
        if (inversions.get() > 0) {
            Usage.fail(inversions.get() + " messages came before an earlier one of their key");
        }
        Usage.print("\"messages\": " + (count - warm) + ", \"cpu_seconds\": " + cpu
            + ", \"inversions\": 0, " + Usage.latencies(latencies, warm));
        consumer.shutdown();
        producer.shutdown();
    }

    private void send(DefaultMQProducer producer, int own) {
        byte[] body = Usage.body(Integer.parseInt(args[5]));
        try {
            for (int i = 0; i < count; i++) {
                if (keys[i] % SENDERS == own) {
                    Usage.await(due[i]);
                    String key = "key-" + keys[i];
                    Message message = new Message(args[2], body);
                    MessageAccessor.putProperty(message, MessageConst.PROPERTY_SHARDING_KEY, key);
                    message.putUserProperty("index", String.valueOf(i));
                    producer.send(message, new SelectMessageQueueByHash(), key);
                }
            }
        } catch (Exception error) {
            Usage.fail("a message was not sent: " + error);
        }
    }

    private DefaultMQPushConsumer consumer(long millis) throws Exception {
        return Usage.consumer(args, (messages, context) -> {
            long now = System.nanoTime();
            for (MessageExt message : messages) {
                take(message, now);
                Consume.rest(millis);
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
    }

    private void take(MessageExt message, long now) {
        int index = Integer.parseInt(message.getUserProperty("index"));
        Integer before = latest.put(keys[index], index);
        if (before != null && before >= index) {
            inversions.incrementAndGet();
        }
        latencies[index] = now - due[index];
        if (arrived.incrementAndGet() == count) {
            done.countDown();
        }
    }

    /** Keys of which the n-th is drawn in proportion to 1 / n; as `meter.zipf` draws them. */
    private static int[] zipf(int count) {
        double[] upTo = new double[Usage.KEYS];
        double sum = 0;
        for (int n = 0; n < Usage.KEYS; n++) {
            sum += 1.0 / (n + 1);
            upTo[n] = sum;
        }
        int[] found = new int[count];
        long state = 1;
        for (int i = 0; i < count; i++) {
            state = (state * 1103515245L + 12345L) % (1L << 31);
            double wanted = sum * state / (1L << 31);
            int at = Arrays.binarySearch(upTo, wanted);
            found[i] = at >= 0 ? Math.min(at + 1, Usage.KEYS - 1) : -at - 1;
        }
        return found;
    }
}
