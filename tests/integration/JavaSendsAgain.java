import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Scanner;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * A program with the Java client that sends received messages again, with all their properties, and
 * messages of its own.
 *
 * Input, parted by blanks: name server, topic, how many messages of its own. Of each queue it pulls
 * all that is there and sends each of these again: alone, and twice in one batch. Its own messages
 * go out in batches, and every tenth batch once more, as the program's own retry would. Prints a
 * line per request, parted by tabs: what it was ("again", "twice", "own", "retry"), queue id, offset
 * of the first message, number of messages.
 */
@SuppressWarnings("deprecation") // the only consumer that pulls where it is told to
public final class JavaSendsAgain {
    private static final int BATCH = 32;
    private static final int TIMEOUT = 30_000; // a busy machine answers late

    private final DefaultMQProducer producer = new DefaultMQProducer("java-sends-again");
    private final DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("java-looks");
    private final String topic;
    private final int own;

    private JavaSendsAgain(String nameServer, String topic, int own) throws Exception {
        this.topic = topic;
        this.own = own;
        producer.setNamesrvAddr(nameServer);
        producer.setMqClientApiTimeout(TIMEOUT);
        producer.setSendMsgTimeout(TIMEOUT);
        producer.start();
        consumer.setNamesrvAddr(nameServer);
        consumer.setMqClientApiTimeout(TIMEOUT);
        consumer.start();
    }

    public static void main(String[] args) throws Exception {
        Scanner input = new Scanner(System.in);
        new JavaSendsAgain(input.next(), input.next(), input.nextInt()).run();
        System.out.flush();
        System.exit(0); // the clients leave threads behind that would keep the process
    }

    private void run() throws Exception {
        List<MessageQueue> queues = producer.fetchPublishMessageQueues(topic);
        ExecutorService threads = Executors.newFixedThreadPool(queues.size());
        List<Future<?>> running = new ArrayList<>();
        for (MessageQueue queue : queues) {
            running.add(threads.submit(() -> send(queue, own / queues.size())));
        }
        for (Future<?> each : running) {
            each.get(); // throws what the thread has thrown
        }
    }

    private Void send(MessageQueue queue, int count) throws Exception {
        List<MessageExt> received = received(queue);
        for (MessageExt message : received) {
            sent("again", producer.send(message, queue), 1);
        }
        for (MessageExt message : received) {
            sent("twice", producer.send(List.of(message, message), queue), 2);
        }
        for (int first = 0, place = 0; first < count; first += BATCH, place++) {
            List<Message> batch = batch(queue.getQueueId(), first, Math.min(first + BATCH, count));
            sent("own", producer.send(batch, queue), batch.size());
            if (place % 10 == 0) { // with the ids that the first send gave the messages
                sent("retry", producer.send(batch, queue), batch.size());
            }
        }
        return null;
    }

    private List<MessageExt> received(MessageQueue queue) throws Exception {
        List<MessageExt> found = new ArrayList<>();
        long at = consumer.minOffset(queue);
        long end = consumer.maxOffset(queue);
        while (at < end) {
            PullResult result = consumer.pull(queue, "*", at, BATCH);
            found.addAll(
                result.getMsgFoundList() == null
                    ? Collections.emptyList() : result.getMsgFoundList());
            at = result.getNextBeginOffset();
        }
        return found;
    }

    private List<Message> batch(int queueId, int first, int end) {
        List<Message> found = new ArrayList<>();
        for (int number = first; number < end; number++) {
            Message message = new Message(topic, String.valueOf(number).getBytes());
            message.putUserProperty("from", "java");
            message.getProperties().put(
                MessageConst.PROPERTY_SHARDING_KEY, "java-" + queueId + "-" + number % 10);
            found.add(message);
        }
        return found;
    }

    private static synchronized void sent(String what, SendResult stored, int count) {
        System.out.println(String.join("\t",
            what,
            String.valueOf(stored.getMessageQueue().getQueueId()),
            String.valueOf(stored.getQueueOffset()),
            String.valueOf(count)));
    }
}
