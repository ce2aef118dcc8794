import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * The rate of the Java client's ordered consumer, with the settings it has by default.
 *
 * Arguments: name server, group, topic, messages, how many of them are not timed, milliseconds that
 * the listener sleeps for each. Prints one line of JSON: the messages timed and their seconds.
 */
public final class JavaOrderly {
    private static final double NANOS = 1e9;
    private static final AtomicInteger FINISHED = new AtomicInteger();
    private static final CountDownLatch DONE = new CountDownLatch(1);
    private static volatile long started;
    private static volatile long ended;
    private static int count;
    private static int warm;
    private static long sleep;

    public static void main(String[] args) throws Exception {
        count = Integer.parseInt(args[3]);
        warm = Integer.parseInt(args[4]);
        sleep = Long.parseLong(args[5]);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[1]);
        consumer.setNamesrvAddr(args[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(args[2], "*");
        consumer.registerMessageListener((MessageListenerOrderly) JavaOrderly::handle);
        consumer.start();
        DONE.await();
        double seconds = (ended - started) / NANOS;
        System.out.println("{\"messages\": " + (count - warm) + ", \"seconds\": " + seconds + "}");
        System.out.flush();
        consumer.shutdown();
        System.exit(0); // the client leaves a thread behind that would keep the process
    }

    private static ConsumeOrderlyStatus handle(
        List<MessageExt> messages, ConsumeOrderlyContext context) {
        for (int i = 0; i < messages.size(); i++) {
            rest();
            int finished = FINISHED.incrementAndGet();
            if (finished == warm) {
                started = System.nanoTime();
            } else if (finished == count) {
                ended = System.nanoTime();
                DONE.countDown();
            }
        }
        return ConsumeOrderlyStatus.SUCCESS;
    }

    private static void rest() {
        if (sleep > 0) {
            try {
                Thread.sleep(sleep);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
