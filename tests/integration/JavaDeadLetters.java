import java.util.List;
import java.util.Scanner;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * An ordered consumer of the Java client that fails every message but the one with the body "last",
 * and ends after that one.
 *
 * Input, parted by blanks: name server, group, topic, failures allowed before a dead letter.
 */
public final class JavaDeadLetters {
    private static final CountDownLatch ENDED = new CountDownLatch(1);

    public static void main(String[] args) throws Exception {
        Scanner input = new Scanner(System.in);
        String nameServer = input.next();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(input.next());
        consumer.setNamesrvAddr(nameServer);
        consumer.setMqClientApiTimeout(30_000); // a busy machine answers the first request late
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(input.next(), "*");
        consumer.setMaxReconsumeTimes(input.nextInt());
        consumer.registerMessageListener((MessageListenerOrderly) JavaDeadLetters::handle);
        consumer.start();
        ENDED.await();
        consumer.shutdown();
        System.exit(0); // the client leaves a thread behind that would keep the process
    }

    private static ConsumeOrderlyStatus handle(
        List<MessageExt> messages, ConsumeOrderlyContext context) {
        if (new String(messages.get(0).getBody()).equals("last")) {
            ENDED.countDown();
            return ConsumeOrderlyStatus.SUCCESS;
        }
        context.setSuspendCurrentQueueTimeMillis(10);
        return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
    }
}
