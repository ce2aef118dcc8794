import java.util.ArrayList;
import java.util.List;
import java.util.Scanner;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;

/**
 * A program with the Java client that sends received messages again, with all their properties, and
 * messages of its own.
 *
 * Input, parted by blanks: name server, topic, how many messages of its own. Of each queue it pulls
 * all that is there and sends each of these again to the same queue: alone, and twice in one batch.
 * Its own messages go out in batches. Every tenth batch is sent once more, as a program's own retry
 * would; and one message more to any queue, where the answer to one send of seven is lost, so that
 * the client sends again.
 */
@SuppressWarnings("deprecation") // the only consumer that pulls where it is told to
public final class JavaSendsAgain {
    private static final int BATCH = 32;
    private static final int TIMEOUT = 30_000; // a busy machine answers late
    private static final int LOST = 7;

    private final DefaultMQProducer producer = new DefaultMQProducer("java-sends-again");
    private final DefaultMQProducer unlucky = new DefaultMQProducer("java-retries", new Loss());
    private final DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("java-looks");
    private final String topic;
    private final int own;

    private JavaSendsAgain(String nameServer, String topic, int own) throws Exception {
        this.topic = topic;
        this.own = own;
        for (DefaultMQProducer each : List.of(producer, unlucky)) {
            each.setNamesrvAddr(nameServer);
            each.setMqClientApiTimeout(TIMEOUT);
            each.setSendMsgTimeout(TIMEOUT);
            each.setRetryTimesWhenSendFailed(10); // a lost answer closes the connection of all
            each.start();
        }
        consumer.setNamesrvAddr(nameServer);
        consumer.setMqClientApiTimeout(TIMEOUT);
        consumer.start();
    }

    public static void main(String[] args) throws Exception {
        Scanner input = new Scanner(System.in);
        new JavaSendsAgain(input.next(), input.next(), input.nextInt()).run();
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
            producer.send(message, queue);
        }
        for (MessageExt message : received) {
            producer.send(List.of(message, message), queue);
        }
        for (int first = 0, place = 0; first < count; first += BATCH, place++) {
            List<Message> batch = batch(queue.getQueueId(), first, Math.min(first + BATCH, count));
            producer.send(batch, queue);
            if (place % 10 == 0) {
                producer.send(batch, queue); // with the ids that the first send gave the messages
                unlucky.send(own(queue.getQueueId(), first));
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
            if (result.getMsgFoundList() != null) {
                found.addAll(result.getMsgFoundList());
            }
            at = result.getNextBeginOffset();
        }
        return found;
    }

    private List<Message> batch(int queueId, int first, int end) {
        List<Message> found = new ArrayList<>();
        for (int number = first; number < end; number++) {
            found.add(own(queueId, number));
        }
        return found;
    }

    private Message own(int queueId, int number) {
        Message message = new Message(topic, String.valueOf(number).getBytes());
        message.getProperties().put(
            MessageConst.PROPERTY_SHARDING_KEY, "java-" + queueId + "-" + number % 10);
        return message;
    }

    /** Loses answers to sends: the message is stored, and the client sends it again. */
    private static final class Loss implements RPCHook {
        private final AtomicInteger answers = new AtomicInteger();

        @Override
        public void doBeforeRequest(String address, RemotingCommand request) {
            // nothing
        }

        @Override
        public void doAfterResponse(
            String address, RemotingCommand request, RemotingCommand response) {
            if (request.getCode() == RequestCode.SEND_MESSAGE_V2
                && answers.incrementAndGet() % LOST == 0) {
                throw new IllegalStateException("the answer was lost");
            }
        }
    }
}
