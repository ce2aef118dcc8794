import com.google.common.hash.Hashing;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.MessageQueue;
import java.util.ArrayList;
import java.util.List;

/**
 * Reads numbers of queues, then one key a line (UTF-8 in hexadecimal), and prints its hashCode,
 * its places by SelectMessageQueueByHash, and its places by Guava's consistentHash.
 */
public final class Placements {
    private Placements() { }

    public static void main(String[] arguments) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        List<List<MessageQueue>> topics = new ArrayList<>();
        for (String count : lines.readLine().split(" ")) {
            topics.add(queues(Integer.parseInt(count)));
        }
        SelectMessageQueueByHash selector = new SelectMessageQueueByHash();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String key = text(line);
            StringBuilder byHash = new StringBuilder();
            StringBuilder consistent = new StringBuilder();
            for (List<MessageQueue> queues : topics) {
                byHash.append(' ').append(selector.select(queues, null, key).getQueueId());
                consistent.append(' ').append(Hashing.consistentHash(key.hashCode(), queues.size()));
            }
            System.out.println(key.hashCode() + byHash.toString() + consistent);
        }
    }

    private static List<MessageQueue> queues(int count) {
        List<MessageQueue> queues = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            queues.add(new MessageQueue("T", "broker-a", number));
        }
        return queues;
    }

    private static String text(String hexadecimal) {
        byte[] bytes = new byte[hexadecimal.length() / 2];
        for (int at = 0; at < bytes.length; at++) {
            bytes[at] = (byte) Integer.parseInt(hexadecimal.substring(2 * at, 2 * at + 2), 16);
        }
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
