import com.google.gson.JsonObject;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** The producer and the addresses of the broker under test; opened and closed once per broker. */
final class Session {
    /** The template topic of auto-creation; the request header wants it though the topic is created outright. */
    private static final String DEFAULT_TOPIC = "TBW102";
    private static final long ADMIN_TIMEOUT_MS = 10_000;
    /** Topic creation is a chain of small waits (persist, register); a few at once hide them. */
    private static final int CREATORS = 4;
    /**
     * By default the client asks for every route again each 30 s. With 2,000 topics that burst of requests, which is the
     * client's own doing, would fall into some measurements and not into others.
     */
    private static final int ROUTE_POLL_MS = 600_000;

    private int opened;
    private String namesrv;
    private String broker;
    private DefaultMQProducer producer;

    Map<String, Object> open(JsonObject request) throws Exception {
        namesrv = request.get("namesrv").getAsString();
        broker = request.get("broker").getAsString();
        producer = new DefaultMQProducer("bench-producer");
        configure(producer);
        // A retry would hide a refused message inside a long latency; failures are counted instead.
        producer.setRetryTimesWhenSendFailed(0);
        producer.setRetryTimesWhenSendAsyncFailed(0);
        producer.start();
        return Map.of();
    }

    Map<String, Object> close(JsonObject request) {
        producer.shutdown();
        producer = null;
        return Map.of();
    }

    DefaultMQProducer producer() {
        if (producer == null) {
            throw new IllegalStateException("no broker is open");
        }
        return producer;
    }

    /** A producer whose transactions are all committed; the caller shuts it down. */
    TransactionMQProducer transactional() throws Exception {
        TransactionMQProducer made = new TransactionMQProducer("bench-transactions");
        configure(made);
        made.setRetryTimesWhenSendFailed(0);
        made.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        made.start();
        return made;
    }

    /** Gives a client the name server and a connection of its own (clients of one name share an instance). */
    void configure(ClientConfig client) {
        client.setNamesrvAddr(namesrv);
        client.setInstanceName("bench-" + ++opened);
        client.setPollNameServerInterval(ROUTE_POLL_MS);
    }

    /** Creates prefix-0 ... prefix-(count-1) and sends one message to each, so that routes and files exist. */
    Map<String, Object> createTopics(JsonObject request) throws Exception {
        String[] names = names(request);
        int queues = request.get("queues").getAsInt();
        long begin = System.nanoTime();
        forEach(names, name -> createTopic(name, queues));
        long created = System.nanoTime();
        forEach(names, name -> producer().send(new Message(name, new byte[1])));
        double nanos = TimeUnit.SECONDS.toNanos(1);
        return Map.of(
            "created", names.length,
            "create_s", (created - begin) / nanos,
            "first_sends_s", (System.nanoTime() - created) / nanos);
    }

    private void createTopic(String name, int queues) throws Exception {
        TopicConfig config = new TopicConfig(name, queues, queues);
        producer().getDefaultMQProducerImpl().getMqClientFactory().getMQClientAPIImpl()
            .createTopic(broker, DEFAULT_TOPIC, config, ADMIN_TIMEOUT_MS);
    }

    static String[] names(JsonObject request) {
        String[] names = new String[request.get("topics").getAsInt()];
        for (int i = 0; i < names.length; i++) {
            names[i] = request.get("prefix").getAsString() + "-" + i;
        }
        return names;
    }

    private interface Action {
        void on(String name) throws Exception;
    }

    private static void forEach(String[] names, Action action) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(CREATORS);
        try {
            List<Future<?>> pending = new ArrayList<>();
            for (String name : names) {
                pending.add(pool.submit(() -> {
                    action.on(name);
                    return null;
                }));
            }
            for (Future<?> each : pending) {
                each.get();
            }
        } finally {
            pool.shutdownNow();
        }
    }
}
