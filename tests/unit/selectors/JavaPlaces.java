import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;

/**
 * Reads one string a line, as its UTF-16 units in hexadecimal separated by commas, and prints its
 * hashCode and its place among 1 to 64 queues. Shared with test_java_places.py.
 */
public final class JavaPlaces {
    private static final int MOST_QUEUES = 64;

    private JavaPlaces() { }

    public static void main(String[] arguments) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            int hash = parse(line).hashCode();
            out.append(hash);
            for (int count = 1; count <= MOST_QUEUES; count++) {
                out.append(' ').append(Math.abs(hash % count));
            }
            out.append('\n');
        }
        System.out.print(out);
    }

    private static String parse(String line) {
        StringBuilder text = new StringBuilder();
        for (String unit : line.split(",")) {
            if (!unit.isEmpty()) {
                text.append((char) Integer.parseInt(unit, 16));
            }
        }
        return text.toString();
    }
}
