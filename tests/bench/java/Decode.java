import java.io.RandomAccessFile;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;

/** Java's own decoder over a file of the log, again and again: one line of records and of this thread's
 * nanoseconds for each time. */
public class Decode {
    public static void main(String[] args) throws Exception {
        ThreadMXBean clock = ManagementFactory.getThreadMXBean();
        long sum = 0;
        try (RandomAccessFile file = new RandomAccessFile(args[0], "r"); FileChannel channel = file.getChannel()) {
            ByteBuffer mapped = channel.map(FileChannel.MapMode.READ_ONLY, 0, Long.parseLong(args[1]));
            for (int round = 0; round < Integer.parseInt(args[2]); round++) {
                mapped.rewind();
                long records = 0;
                long begin = clock.getCurrentThreadCpuTime();
                while (mapped.remaining() > 91) {
                    MessageExt message = MessageDecoder.decode(mapped, false, false);
                    if (message == null) {
                        break;
                    }
                    sum += message.getStoreSize();
                    records++;
                }
                System.out.println(records + " " + (clock.getCurrentThreadCpuTime() - begin));
            }
        }
        if (sum == 0) {
            System.exit(1);
        }
    }
}
