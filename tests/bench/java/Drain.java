import com.google.gson.JsonObject;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Empties a topic that holds messages numbered 0 ... count-1 in the first four bytes of their bodies.
 *
 * <p>Each number is ticked off, so a lost message ends the phase as "missing" and a repeated one is not paid twice. The
 * clock runs from the first message in the listener to the last new one: how long a group takes to form is not in it.
 */
final class Drain {
    /** What one pull brings by default; handing it over whole keeps the client's thread pool out of the picture. */
    private static final int LISTENER_BATCH = 32;

    private final Session session;
    private final JsonObject request;
    private final int count;
    private final AtomicIntegerArray seen;
    private final AtomicLong fresh = new AtomicLong();
    private final AtomicLong repeated = new AtomicLong();
    private final AtomicBoolean begun = new AtomicBoolean();
    private final CountDownLatch complete = new CountDownLatch(1);
    private volatile long first;
    private volatile long last;

    Drain(Session session, JsonObject request) {
        this.session = session;
        this.request = request;
        this.count = request.get("count").getAsInt();
        this.seen = new AtomicIntegerArray(request.get("numbers").getAsInt());
    }

    Map<String, Object> run() throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(request.get("group").getAsString());
        session.configure(consumer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeMessageBatchMaxSize(LISTENER_BATCH);
        consumer.subscribe(Session.names(request)[0], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> take(messages));
        long started = System.nanoTime();
        try {
            consumer.start();
            complete.await(request.get("seconds").getAsLong(), TimeUnit.SECONDS);
        } finally {
            consumer.shutdown();
        }
        return report(started);
    }

    private ConsumeConcurrentlyStatus take(List<MessageExt> messages) {
        if (begun.compareAndSet(false, true)) {
            first = System.nanoTime();
        }
        int added = 0;
        for (MessageExt each : messages) {
            byte[] body = each.getBody();
            // The one-byte message that opened the topic has no number.
            if (body.length >= Integer.BYTES && seen.getAndSet(ByteBuffer.wrap(body).getInt(), 1) == 0) {
                added++;
            } else if (body.length >= Integer.BYTES) {
                repeated.incrementAndGet();
            }
        }
        if (added > 0 && fresh.addAndGet(added) >= count && last == 0) {
            last = System.nanoTime();
            complete.countDown();
        }
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
    }

    private Map<String, Object> report(long started) {
        long end = last == 0 ? System.nanoTime() : last;
        double nanos = TimeUnit.SECONDS.toNanos(1);
        double seconds = (end - first) / nanos;
        return Map.of(
            "messages", fresh.get(),
            "missing", Math.max(0, count - fresh.get()),
            "repeated", repeated.get(),
            "first_message_s", begun.get() ? (first - started) / nanos : 0.0,
            "seconds", seconds,
            "rate", fresh.get() / seconds);
    }
}
