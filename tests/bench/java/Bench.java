import com.google.gson.Gson;
import com.google.gson.JsonObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.rocketmq.client.producer.TransactionMQProducer;

/**
 * A load generator on Apache's Java client, driven by JSON lines: one request on stdin, one answer on stdout.
 *
 * <p>One JVM serves the whole benchmark, so both brokers meet the same, equally warmed-up client. A request names its
 * phase in "do"; the answer holds the figures of that phase, or "error". End of input ends the program.
 */
public final class Bench {
    private interface Phase {
        Object run(JsonObject request) throws Exception;
    }

    private final Session session = new Session();

    private final Map<String, Phase> phases = Map.ofEntries(
        Map.entry("open", session::open),
        Map.entry("topics", session::createTopics),
        Map.entry("close", session::close),
        Map.entry("sync", request -> new Sends(session.producer(), request).sync()),
        Map.entry("async", request -> new Sends(session.producer(), request).async()),
        Map.entry("transaction", this::transaction),
        Map.entry("batch", request -> new Sends(session.producer(), request).batch()),
        Map.entry("lookup", request -> new Lookup(session, request).run()),
        Map.entry("drain", request -> new Drain(session, request).run()),
        Map.entry("latency", request -> new EndToEnd(session, request).run()));

    private Object transaction(JsonObject request) throws Exception {
        TransactionMQProducer producer = session.transactional();
        try {
            return new Sends(producer, request).transaction();
        } finally {
            producer.shutdown();
        }
    }

    private Object answer(Gson gson, String line) {
        try {
            JsonObject request = gson.fromJson(line, JsonObject.class);
            return phases.get(request.get("do").getAsString()).run(request);
        } catch (Throwable problem) {
            problem.printStackTrace();
            return Map.of("error", problem.toString());
        }
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        // The answer stream is a protocol: a library that prints must not end up in it.
        System.setOut(System.err);
        Bench bench = new Bench();
        Gson gson = new Gson();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.println(gson.toJson(bench.answer(gson, line)));
            answers.flush();
        }
        // The client leaves non-daemon threads behind when a phase failed half-way.
        System.exit(0);
    }
}
