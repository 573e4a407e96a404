import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;

/** Latencies of one phase, one slot per call; safe for concurrent use as long as each slot has one writer. */
final class Samples {
    private static final double NANOS_PER_MICRO = 1e3;
    private static final double NANOS_PER_SECOND = 1e9;

    private final long[] nanos;
    private final AtomicInteger done = new AtomicInteger();
    private final AtomicInteger failed = new AtomicInteger();
    private final AtomicReference<String> firstError = new AtomicReference<>();
    private final AtomicLong lastDone = new AtomicLong();

    Samples(int calls) {
        nanos = new long[calls];
    }

    void ok(int slot, long begin) {
        long now = System.nanoTime();
        nanos[slot] = Math.max(1, now - begin);
        lastDone.accumulateAndGet(now, Math::max);
        done.incrementAndGet();
    }

    void error(Throwable problem) {
        failed.incrementAndGet();
        firstError.compareAndSet(null, problem.toString());
    }

    int done() {
        return done.get();
    }

    /** The figures of a phase that began at {@code begin} and moved {@code perCall} messages with each call. */
    Map<String, Object> report(long begin, int perCall) {
        long[] sorted = Arrays.stream(nanos).filter(each -> each > 0).sorted().toArray();
        double seconds = (lastDone.get() - begin) / NANOS_PER_SECOND;
        long messages = (long) sorted.length * perCall;
        Map<String, Object> figures = new LinkedHashMap<>();
        figures.put("messages", messages);
        figures.put("failed", failed.get());
        figures.put("seconds", seconds);
        figures.put("rate", messages == 0 ? 0.0 : messages / seconds);
        figures.put("p50_us", percentile(sorted, 0.50));
        figures.put("p99_us", percentile(sorted, 0.99));
        figures.put("p999_us", percentile(sorted, 0.999));
        figures.put("max_us", percentile(sorted, 1.0));
        if (firstError.get() != null) {
            figures.put("first_error", firstError.get());
        }
        return figures;
    }

    private static double percentile(long[] sorted, double share) {
        if (sorted.length == 0) {
            return 0;
        }
        int index = (int) Math.ceil(share * sorted.length) - 1;
        return sorted[Math.max(0, index)] / NANOS_PER_MICRO;
    }
}
