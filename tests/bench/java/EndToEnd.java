import com.google.gson.JsonObject;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * One producer at a fixed, modest rate and one push consumer in the same JVM, so that one clock times both ends.
 *
 * <p>A body begins with the number of the message and the time of its send call. Numbers below zero are the run-up.
 */
final class EndToEnd {
    /** Group forming may wait for a rebalance (20 s in the client) when the broker does not notify it. */
    private static final long FORMING_S = 30;
    private static final long PROBE_GAP_NS = TimeUnit.MILLISECONDS.toNanos(50);
    /** A queue that answers the first message late (its long poll just began) should not be among the samples. */
    private static final long RUN_UP_S = 2;
    private static final long SETTLE_S = 5;

    private final Session session;
    private final String topic;
    private final int rate;
    private final int count;
    private final byte[] template;
    private final String group;
    private final Samples samples;
    private volatile boolean heard;
    /** All messages sent, the run-up included: what the broker's CPU time was spent on. */
    private int carried;

    EndToEnd(Session session, JsonObject request) {
        this.session = session;
        this.topic = Session.names(request)[0];
        this.rate = request.get("rate").getAsInt();
        this.count = rate * request.get("seconds").getAsInt();
        this.template = new byte[request.get("body").getAsInt()];
        this.group = request.get("group").getAsString();
        this.samples = new Samples(count);
    }

    Map<String, Object> run() throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        session.configure(consumer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> take(messages));
        try {
            consumer.start();
            waitUntilHeard();
            sendAtRate(-rate * (int) RUN_UP_S, 0);
            long begin = System.nanoTime();
            sendAtRate(0, count);
            waitUntilSettled();
            Map<String, Object> figures = samples.report(begin, 1);
            figures.put("carried", carried);
            return figures;
        } finally {
            consumer.shutdown();
        }
    }

    private ConsumeConcurrentlyStatus take(List<MessageExt> messages) {
        for (MessageExt each : messages) {
            byte[] body = each.getBody();
            if (body.length < template.length) {
                continue; // the one-byte message that opened the topic
            }
            heard = true;
            ByteBuffer fields = ByteBuffer.wrap(body);
            int number = fields.getInt();
            if (number >= 0) {
                samples.ok(number, fields.getLong());
            }
        }
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
    }

    private void waitUntilHeard() throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(FORMING_S);
        while (!heard) {
            if (System.nanoTime() > deadline) {
                throw new TimeoutException("the consumer heard nothing for " + FORMING_S + " s");
            }
            send(-1);
            LockSupport.parkNanos(PROBE_GAP_NS);
        }
    }

    private void sendAtRate(int from, int to) {
        long gap = TimeUnit.SECONDS.toNanos(1) / rate;
        long due = System.nanoTime();
        for (int number = from; number < to; number++, due += gap) {
            for (long wait = due - System.nanoTime(); wait > 0; wait = due - System.nanoTime()) {
                LockSupport.parkNanos(wait);
            }
            try {
                send(number);
            } catch (Exception refused) {
                samples.error(refused);
            }
        }
    }

    private void send(int number) throws Exception {
        byte[] body = template.clone();
        ByteBuffer.wrap(body).putInt(number).putLong(System.nanoTime());
        session.producer().send(new Message(topic, "", "key-" + number, body));
        carried++;
    }

    private void waitUntilSettled() {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(SETTLE_S);
        while (samples.done() < count && System.nanoTime() < deadline) {
            LockSupport.parkNanos(PROBE_GAP_NS);
        }
    }
}
