import java.util.concurrent.Semaphore;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.MessageQueueSelector;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageConst;

/**
 * Sends by the hash of a key, from one thread, with the settings the client has by default.
 *
 * Arguments: name server, topic, messages, how many of them are not timed, bytes of body, messages in
 * flight: 1 sends one after the other, more uses the asynchronous call, which the broker may reorder.
 */
public final class Send {
    private static final MessageQueueSelector BY_HASH = new SelectMessageQueueByHash();

    public static void main(String[] args) throws Exception {
        int count = Integer.parseInt(args[2]);
        Usage usage = new Usage(count, Integer.parseInt(args[3]));
        byte[] body = Usage.body(Integer.parseInt(args[4]));
        int inFlight = Integer.parseInt(args[5]);
        DefaultMQProducer producer = new DefaultMQProducer("peers");
        producer.setNamesrvAddr(args[0]);
        producer.start();
        Semaphore room = new Semaphore(inFlight);
        for (int i = 0; i < count; i++) {
            Message message = message(args[1], body, i);
            if (inFlight == 1) {
                require(producer.send(message, BY_HASH, Usage.key(i)));
                usage.tick();
            } else {
                room.acquire();
                producer.send(message, BY_HASH, Usage.key(i), finished(usage, room));
            }
        }
        usage.tell();
        producer.shutdown();
        Usage.end();
    }

    static Message message(String topic, byte[] body, int number) {
        Message message = new Message(topic, body);
        MessageAccessor.putProperty(message, MessageConst.PROPERTY_SHARDING_KEY, Usage.key(number));
        return message;
    }

    private static SendCallback finished(Usage usage, Semaphore room) {
        return new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                require(result);
                usage.tick();
                room.release();
            }

            @Override
            public void onException(Throwable error) {
                Usage.fail("a message was not sent: " + error);
            }
        };
    }

    private static void require(SendResult result) {
        if (result.getSendStatus() != SendStatus.SEND_OK) {
            Usage.fail("a message was not stored as it should be: " + result);
        }
    }
}
