import java.util.List;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * An ordered consumer of the Java client, with the settings it has by default, but more patient.
 *
 * Arguments: name server, group, topic, and what is wrong with the handler: "blocked" never comes
 * back, "suspended" asks each time for another try; nothing if it is left out. Prints "started" and
 * its client id, then a line per delivery: "delivered", key, body, queue id, queue offset, start and
 * end of the handler in milliseconds since 1970, all parted by tabs. Shuts down cleanly at the end
 * of its standard input.
 */
public final class JavaMember {
    private static final String SHARDING_KEY = "__SHARDINGKEY"; // 4.9 has no constant for it
    private static final long WORK_NANOS = 1_000_000; // two handlers of one queue would be seen

    public static void main(String[] args) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[1]);
        consumer.setNamesrvAddr(args[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setMqClientApiTimeout(30_000); // a busy machine answers the first request late
        consumer.subscribe(args[2], "*");
        String trouble = args.length > 3 ? args[3] : "";
        consumer.registerMessageListener(
            (MessageListenerOrderly) (messages, context) -> handle(messages, trouble));
        consumer.start();
        print("started\t" + consumer.buildMQClientId());
        while (System.in.read() >= 0) {
            // whatever is written to it means nothing
        }
        consumer.shutdown();
        System.exit(0); // the client leaves a thread behind that would keep the process
    }

    private static ConsumeOrderlyStatus handle(List<MessageExt> messages, String trouble) {
        long start = System.currentTimeMillis();
        LockSupport.parkNanos(WORK_NANOS);
        while (trouble.equals("blocked")) {
            LockSupport.park();
        }
        for (MessageExt message : messages) {
            print(line(message, start, System.currentTimeMillis()));
        }
        return trouble.equals("suspended")
            ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
            : ConsumeOrderlyStatus.SUCCESS;
    }

    private static String line(MessageExt message, long start, long end) {
        return String.join("\t",
            "delivered",
            message.getProperty(SHARDING_KEY),
            new String(message.getBody()),
            String.valueOf(message.getQueueId()),
            String.valueOf(message.getQueueOffset()),
            String.valueOf(start),
            String.valueOf(end));
    }

    private static synchronized void print(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
