import com.google.gson.JsonObject;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.MQAdminImpl;

/** Asks for some of the messages that {@link Sends} numbered, by their keys. */
final class Lookup {
    /** Keys are unique within a topic; a few more would show a broker that answers with anything. */
    private static final int AT_MOST = 8;
    private static final long DAY_MS = TimeUnit.DAYS.toMillis(1);

    private final MQAdminImpl admin;
    private final JsonObject request;

    Lookup(Session session, JsonObject request) {
        this.admin = session.producer().getDefaultMQProducerImpl().getMqClientFactory().getMQAdminImpl();
        this.request = request;
    }

    Map<String, Object> run() throws InterruptedException {
        int numbers = request.get("numbers").getAsInt();
        int ask = request.get("ask").getAsInt();
        Samples samples = new Samples(ask);
        long first = System.nanoTime();
        for (int i = 0; i < ask; i++) {
            long begin = System.nanoTime();
            if (has(Sends.key((int) ((long) i * (numbers - 1) / Math.max(1, ask - 1))))) {
                samples.ok(i, begin);
            }
        }
        Map<String, Object> figures = samples.report(first, 1);
        figures.put("found", samples.done());
        return figures;
    }

    private boolean has(String key) throws InterruptedException {
        long now = System.currentTimeMillis();
        try {
            return admin.queryMessage(Session.names(request)[0], key, AT_MOST, now - DAY_MS, now + DAY_MS)
                .getMessageList().stream().anyMatch(each -> key.equals(each.getKeys()));
        } catch (MQClientException nothingThere) {
            return false;
        }
    }
}
