import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * Reads one request a line: access key, secret key, security token and a frame without its first
 * four bytes, each in Base64 ("-" is no token). Prints the signature that Java's client gives it.
 */
public final class JavaSigning {
    private JavaSigning() { }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split(" ");
            SessionCredentials credentials = fields[2].equals("-")
                ? new SessionCredentials(text(fields[0]), text(fields[1]))
                : new SessionCredentials(text(fields[0]), text(fields[1]), text(fields[2]));
            RemotingCommand command = RemotingCommand.decode(Base64.getDecoder().decode(fields[3]));
            new AclClientRPCHook(credentials).doBeforeRequest("127.0.0.1:1", command);
            out.println(command.getExtFields().get("Signature"));
        }
        out.flush();
    }

    private static String text(String field) {
        return new String(Base64.getDecoder().decode(field), StandardCharsets.UTF_8);
    }
}
