import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Sends at an even pace and consumes in this process: nanoseconds from each send to its listener.
 *
 * Arguments: name server, group, topic, messages, how many of them are not timed, bytes of body,
 * messages per second.
 */
public final class Latency {
    private static final double NANOS = 1e9;

    public static void main(String[] args) throws Exception {
        int count = Integer.parseInt(args[3]);
        int warm = Integer.parseInt(args[4]);
        byte[] body = Usage.body(Integer.parseInt(args[5]));
        double pause = NANOS / Double.parseDouble(args[6]);
        long[] arrived = new long[count];
        CountDownLatch done = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = consumer(args, arrived, done);
        DefaultMQProducer producer = new DefaultMQProducer("peers-latency");
        producer.setNamesrvAddr(args[0]);
        producer.start();
        long start = System.nanoTime();
        double cpu = 0;
        for (int i = 0; i < count; i++) {
            Usage.await(start + (long) (i * pause));
            if (i == warm) {
                cpu = Usage.cpuSeconds();
            }
            Message message = Send.message(args[2], body, i);
            message.putUserProperty("sent", String.valueOf(System.nanoTime()));
            producer.send(message, new SelectMessageQueueByHash(), Usage.key(i));
        }
        double rate = count / ((System.nanoTime() - start) / NANOS);
        if (!done.await(Usage.TIMEOUT_SECONDS, TimeUnit.SECONDS)) {
            Usage.fail("not all messages arrived");
        }
        cpu = Usage.cpuSeconds() - cpu;
        Usage.print("\"messages\": " + (count - warm) + ", \"cpu_seconds\": " + cpu
            + ", \"sent_rate\": " + rate + ", " + Usage.latencies(arrived, warm));
        consumer.shutdown();
        producer.shutdown();
        Usage.end();
    }

    private static DefaultMQPushConsumer consumer(
        String[] args, long[] arrived, CountDownLatch done) throws Exception {
        AtomicInteger next = new AtomicInteger();
        return Usage.consumer(args, (messages, context) -> {
            long now = System.nanoTime();
            for (MessageExt message : messages) {
                int number = next.getAndIncrement();
                arrived[number] = now - Long.parseLong(message.getUserProperty("sent"));
                if (number == arrived.length - 1) {
                    done.countDown();
                }
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
    }
}
