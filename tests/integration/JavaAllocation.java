import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.StringJoiner;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Reads one case a line and prints the share of each member, in the order of the sorted ids.
 * The form of a line is that of tests/support/java.py.
 */
public final class JavaAllocation {
    private JavaAllocation() { }

    public static void main(String[] arguments) throws IOException {
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.println(answer(line.split(" \\| ")));
        }
        out.flush();
    }

    private static String answer(String[] fields) {
        String topic = fields[1];
        List<MessageQueue> queues = new ArrayList<>();
        for (String text : fields[2].split(" ")) {
            MessageQueue last = queue(topic, text);
            for (int id = 0; id < last.getQueueId(); id++) {
                queues.add(new MessageQueue(topic, last.getBrokerName(), id));
            }
        }
        List<String> members = Arrays.asList(fields[3].split(" "));
        Collections.sort(queues);
        Collections.sort(members);
        AllocateMessageQueueStrategy strategy = strategy(topic, fields[0].split(" "));
        StringJoiner shares = new StringJoiner("; ");
        for (String member : members) {
            StringJoiner share = new StringJoiner(" ").setEmptyValue("-");
            for (MessageQueue queue : strategy.allocate("group", member, queues, members)) {
                share.add(queue.getBrokerName() + ":" + queue.getQueueId());
            }
            shares.add(share.toString());
        }
        return shares.toString();
    }

    private static AllocateMessageQueueStrategy strategy(String topic, String[] words) {
        switch (words[0]) {
            case "averagely":
                return new AllocateMessageQueueAveragely();
            case "circle":
                return new AllocateMessageQueueAveragelyByCircle();
            case "consistent-hash":
                return words.length == 1 ? new AllocateMessageQueueConsistentHash()
                    : new AllocateMessageQueueConsistentHash(Integer.parseInt(words[1]));
            case "config":
                List<MessageQueue> fixed = new ArrayList<>();
                for (String text : rest(words)) {
                    fixed.add(queue(topic, text));
                }
                AllocateMessageQueueByConfig config = new AllocateMessageQueueByConfig();
                config.setMessageQueueList(fixed);
                return config;
            case "room":
                AllocateMessageQueueByMachineRoom room = new AllocateMessageQueueByMachineRoom();
                room.setConsumeridcs(new HashSet<>(rest(words)));
                return room;
            case "nearby":
                return new AllocateMachineRoomNearby(
                    strategy(topic, rest(words).toArray(new String[0])), new BeforeAt());
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static List<String> rest(String[] words) {
        return Arrays.asList(words).subList(1, words.length);
    }

    private static MessageQueue queue(String topic, String text) {
        int colon = text.lastIndexOf(':');
        return new MessageQueue(
            topic, text.substring(0, colon), Integer.parseInt(text.substring(colon + 1)));
    }

    /** The room of a broker and of a member is what stands before the first "@" of its name. */
    private static final class BeforeAt implements AllocateMachineRoomNearby.MachineRoomResolver {
        @Override
        public String brokerDeployIn(MessageQueue queue) {
            return consumerDeployIn(queue.getBrokerName());
        }

        @Override
        public String consumerDeployIn(String name) {
            return name.split("@")[0];
        }
    }
}
