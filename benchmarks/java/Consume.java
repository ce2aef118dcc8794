import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;

/**
 * Works a backlog off in order, with the settings the client has by default.
 *
 * Arguments: name server, group, topic, messages, how many of them are not timed; and, if wanted,
 * milliseconds that the listener sleeps for each.
 */
public final class Consume {
    public static void main(String[] args) throws Exception {
        Usage usage = new Usage(Integer.parseInt(args[3]), Integer.parseInt(args[4]));
        long sleep = args.length > 5 ? Long.parseLong(args[5]) : 0;
        DefaultMQPushConsumer consumer = Usage.consumer(args, (messages, context) -> {
            for (int i = 0; i < messages.size(); i++) {
                rest(sleep);
                usage.tick();
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        usage.tell();
        consumer.shutdown();
        Usage.end();
    }

    static void rest(long millis) {
        if (millis > 0) {
            try {
                Thread.sleep(millis);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
