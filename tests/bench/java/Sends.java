import com.google.gson.JsonObject;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/**
 * The three ways of sending. Every loop ends after "calls" calls or "seconds" seconds, whichever comes first.
 *
 * <p>All threads share one producer and so one connection, as in Apache's own benchmark producer.
 */
final class Sends {
    /** How long outstanding asynchronous sends may take to come back; above the client's own 3 s time-out. */
    private static final long SETTLE_MS = 10_000;

    private final DefaultMQProducer producer;
    private final String[] topics;
    private final int calls;
    private final int width;
    private final int perCall;
    private final int bodyBytes;
    private final int delayLevel;
    private final long deadline;
    private final Samples samples;
    private final AtomicInteger tickets = new AtomicInteger();

    Sends(DefaultMQProducer producer, JsonObject request) {
        this.producer = producer;
        this.topics = Session.names(request);
        this.calls = request.get("calls").getAsInt();
        this.width = request.get("width").getAsInt();
        this.perCall = request.has("per_call") ? request.get("per_call").getAsInt() : 1;
        this.bodyBytes = request.get("body").getAsInt();
        this.delayLevel = request.has("delay_level") ? request.get("delay_level").getAsInt() : 0;
        this.deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(request.get("seconds").getAsLong());
        this.samples = new Samples(calls);
    }

    /** "width" threads, each waiting for the acknowledgement of one message before it sends the next. */
    Map<String, Object> sync() throws InterruptedException {
        return onThreads(ticket -> producer.send(message(ticket, 0)));
    }

    /** As sync, but each call is a transaction: a half message, and the word that it counts. */
    Map<String, Object> transaction() throws InterruptedException {
        return onThreads(ticket -> producer.sendMessageInTransaction(message(ticket, 0), null));
    }

    /** As sync, but each call carries "per_call" messages to one topic. */
    Map<String, Object> batch() throws InterruptedException {
        return onThreads(ticket -> {
            List<Message> messages = new ArrayList<>(perCall);
            for (int i = 0; i < perCall; i++) {
                messages.add(message(ticket, i));
            }
            return producer.send(messages);
        });
    }

    /** One thread that keeps up to "width" messages on the way. */
    Map<String, Object> async() throws InterruptedException {
        Semaphore room = new Semaphore(width);
        long begin = System.nanoTime();
        for (int ticket = next(); ticket >= 0; ticket = next()) {
            room.acquire();
            sendAsync(ticket, room);
        }
        room.tryAcquire(width, SETTLE_MS, TimeUnit.MILLISECONDS);
        return samples.report(begin, 1);
    }

    private interface Call {
        SendResult with(int ticket) throws Exception;
    }

    private Map<String, Object> onThreads(Call call) throws InterruptedException {
        List<Thread> threads = new ArrayList<>(width);
        for (int i = 0; i < width; i++) {
            threads.add(new Thread(() -> repeat(call), "bench-" + i));
        }
        long begin = System.nanoTime();
        threads.forEach(Thread::start);
        for (Thread each : threads) {
            each.join();
        }
        return samples.report(begin, perCall);
    }

    private void repeat(Call call) {
        for (int ticket = next(); ticket >= 0; ticket = next()) {
            long begin = System.nanoTime();
            try {
                record(ticket, begin, call.with(ticket));
            } catch (Exception refused) {
                samples.error(refused);
            }
        }
    }

    private void sendAsync(int ticket, Semaphore room) throws InterruptedException {
        long begin = System.nanoTime();
        try {
            producer.send(message(ticket, 0), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    record(ticket, begin, result);
                    room.release();
                }

                @Override
                public void onException(Throwable problem) {
                    samples.error(problem);
                    room.release();
                }
            });
        } catch (InterruptedException stop) {
            throw stop;
        } catch (Exception refused) {
            samples.error(refused);
            room.release();
        }
    }

    private void record(int ticket, long begin, SendResult result) {
        if (result.getSendStatus() == SendStatus.SEND_OK) {
            samples.ok(ticket, begin);
        } else {
            samples.error(new IllegalStateException(result.getSendStatus().name()));
        }
    }

    /** The number of the next call, or -1 when the phase is over. */
    private int next() {
        if (System.nanoTime() > deadline) {
            return -1;
        }
        int ticket = tickets.getAndIncrement();
        return ticket < calls ? ticket : -1;
    }

    /** Every message has a key, as real ones do: it makes the broker write its index. The body begins with its number. */
    private Message message(int ticket, int position) {
        int number = ticket * perCall + position;
        byte[] body = new byte[bodyBytes];
        ByteBuffer.wrap(body).putInt(number);
        Message message = new Message(topics[ticket % topics.length], "", key(number), body);
        if (delayLevel > 0) {
            message.setDelayTimeLevel(delayLevel);
        }
        return message;
    }

    static String key(int number) {
        return "key-" + number;
    }
}
