import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.FileOutputStream;
import java.io.FileDescriptor;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.text.SimpleDateFormat;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.Date;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.function.IntConsumer;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.MessageQueueSelector;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * A RocketMQ client driven by JSON lines: one request per line on stdin, one reply per request and one event per
 * consumed message on stdout. The protocol is described in driver.py; the Go driver speaks it too.
 *
 * One source for clients 4.9.7 and 5.5.0: what moved between packages or exists in one of them only is reached by
 * type inference or reflection.
 */
public final class Driver {
    private interface Op {
        JsonObject run(Request request) throws Exception;
    }

    /** This release of the client has no such thing; tests tell it from a failure. */
    private static final class Unsupported extends RuntimeException {
        private static final long serialVersionUID = 1;

        Unsupported(String what) {
            super(what);
        }
    }

    private static final Gson GSON = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();
    /** Distinguishes clients of this process; the process id in front of it distinguishes processes. */
    private static final AtomicInteger INSTANCES = new AtomicInteger();
    private static final long RESET_LIMIT_MS = 1000;

    private final PrintStream out;
    private final ExecutorService pool = Executors.newCachedThreadPool();
    private final Map<String, Op> ops = new TreeMap<>();
    private final Map<String, DefaultMQProducer> producers = new ConcurrentHashMap<>();
    private final Map<String, DefaultMQPushConsumer> consumers = new ConcurrentHashMap<>();
    private final Map<String, DefaultLitePullConsumer> litePulls = new ConcurrentHashMap<>();
    private final Map<String, DefaultMQAdminExt> admins = new ConcurrentHashMap<>();

    private Driver(PrintStream out) {
        this.out = out;
        ops.put("ping", request -> object("pid", ProcessHandle.current().pid()));
        ops.put("reset", request -> reset());
        ops.put("producer_start", this::producerStart);
        ops.put("producer_stop", this::producerStop);
        ops.put("send", this::send);
        ops.put("send_many", this::sendMany);
        ops.put("send_batch", this::sendBatch);
        ops.put("recall", this::recall);
        ops.put("request", this::request);
        ops.put("consumer_start", this::consumerStart);
        ops.put("consumer_stop", this::consumerStop);
        ops.put("consumer_assignment", this::consumerAssignment);
        ops.put("lite_pull_start", this::litePullStart);
        ops.put("lite_pull_poll", this::litePullPoll);
        ops.put("lite_pull_commit", this::litePullCommit);
        ops.put("lite_pull_assignment", this::litePullAssignment);
        ops.put("lite_pull_stop", this::litePullStop);
        ops.put("queues", this::queues);
        ops.put("max_offset", request -> object("offset", admin(request).maxOffset(readQueue(request))));
        ops.put("min_offset", request -> object("offset", admin(request).minOffset(readQueue(request))));
        ops.put("search_offset", this::searchOffset);
        ops.put("view_message", this::viewMessage);
        ops.put("query_key", this::queryKey);
        ops.put("create_topic", this::createTopic);
        ops.put("allocate", this::allocate);
        ops.put("mqadmin", Driver::mqadmin);
    }

    public static void main(String[] args) throws Exception {
        PrintStream protocol = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
        // Whatever a library prints goes to stderr, which the test keeps as the log.
        System.setOut(System.err);
        new Driver(protocol).serve();
        // Client threads may linger; the test has its answer and has gone.
        Runtime.getRuntime().halt(0);
    }

    /** Each request runs on a thread of its own, so that a waiting poll or send keeps nothing else waiting. */
    private void serve() throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Request request = new Request(GSON.fromJson(line, JsonObject.class));
            if (request.text("op").equals("exit")) {
                reset();
                emit(reply(request, new JsonObject()));
                return;
            }
            pool.execute(() -> emit(answer(request)));
        }
    }

    private JsonObject answer(Request request) {
        Op op = ops.get(request.text("op"));
        try {
            return op == null ? failure(request, "unsupported", null) : reply(request, op.run(request));
        } catch (Unsupported error) {
            return failure(request, "unsupported: " + error.getMessage(), null);
        } catch (Throwable error) {
            error.printStackTrace();
            return failure(request, error.toString(), responseCode(error));
        }
    }

    private void emit(JsonObject line) {
        String text = GSON.toJson(line);
        synchronized (out) {
            out.print(text);
            out.print('\n');
            out.flush();
        }
    }

    private static JsonObject reply(Request request, JsonObject fields) {
        fields.add("id", request.json.get("id"));
        fields.addProperty("ok", true);
        return fields;
    }

    private static JsonObject failure(Request request, String error, Integer code) {
        JsonObject fields = new JsonObject();
        fields.add("id", request.json.get("id"));
        fields.addProperty("ok", false);
        fields.addProperty("error", error);
        fields.addProperty("code", code);
        return fields;
    }

    /** The first code on the way down the causes; -1 is how MQClientException spells "none". */
    private static Integer responseCode(Throwable error) {
        for (Throwable at = error; at != null; at = at.getCause()) {
            int code = -1;
            if (at instanceof MQBrokerException) {
                code = ((MQBrokerException) at).getResponseCode();
            } else if (at instanceof MQClientException) {
                code = ((MQClientException) at).getResponseCode();
            }
            if (code >= 0) {
                return code;
            }
        }
        return null;
    }

    // ---------------------------------------------------------------- clients

    /**
     * Stops everything, so that one process can serve test after test. All at once and with a limit: a client takes
     * milliseconds to say goodbye to its brokers, but then joins threads that sleep for up to 3 s.
     */
    private JsonObject reset() throws InterruptedException {
        List<Runnable> shutdowns = new ArrayList<>();
        drain(producers, client -> shutdowns.add(client::shutdown));
        drain(consumers, client -> shutdowns.add(client::shutdown));
        drain(litePulls, client -> shutdowns.add(client::shutdown));
        drain(admins, client -> shutdowns.add(client::shutdown));
        CountDownLatch running = new CountDownLatch(shutdowns.size());
        for (Runnable shutdown : shutdowns) {
            pool.execute(() -> {
                try {
                    shutdown.run();
                } finally {
                    running.countDown();
                }
            });
        }
        running.await(RESET_LIMIT_MS, TimeUnit.MILLISECONDS);
        return new JsonObject();
    }

    private static <T> void drain(Map<String, T> clients, Consumer<T> use) {
        for (String name : new ArrayList<>(clients.keySet())) {
            use.accept(clients.remove(name));
        }
    }

    private static <T> T known(Map<String, T> clients, String name) {
        T client = clients.get(name);
        if (client == null) {
            throw new IllegalArgumentException("not started: " + name);
        }
        return client;
    }

    /** Clients with one instance name share one connection and one client id; here every client is its own. */
    private static void configure(ClientConfig client, Request request) throws Exception {
        String unique =
            request.text("name", "admin") + "#" + ProcessHandle.current().pid() + "#" + INSTANCES.incrementAndGet();
        client.setNamesrvAddr(request.text("namesrv"));
        client.setInstanceName(request.text("instanceName", unique));
        setProperties(client, request);
    }

    private static void setProperties(Object target, Request request) throws Exception {
        JsonElement extra = request.json.get("java");
        if (extra != null) {
            for (Map.Entry<String, JsonElement> property : extra.getAsJsonObject().entrySet()) {
                setProperty(target, property.getKey(), property.getValue());
            }
        }
    }

    /** Calls client.setXxx(value); enum types, which moved between releases, are found by the setter's own type. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void setProperty(Object client, String name, JsonElement value) throws Exception {
        String setter = "set" + Character.toUpperCase(name.charAt(0)) + name.substring(1);
        for (Method method : client.getClass().getMethods()) {
            if (method.getName().equals(setter) && method.getParameterCount() == 1) {
                Class<?> type = method.getParameterTypes()[0];
                Object argument =
                    type.isEnum() ? Enum.valueOf((Class) type, value.getAsString()) : GSON.fromJson(value, type);
                method.invoke(client, argument);
                return;
            }
        }
        throw new Unsupported(client.getClass().getSimpleName() + " has no " + setter);
    }

    private static JsonObject started(ClientConfig client) {
        JsonObject fields = object("instanceName", client.getInstanceName());
        fields.addProperty("clientId", client.buildMQClientId());
        return fields;
    }

    private DefaultMQAdminExt admin(Request request) throws Exception {
        String namesrv = request.text("namesrv");
        synchronized (admins) {
            DefaultMQAdminExt admin = admins.get(namesrv);
            if (admin == null) {
                admin = new DefaultMQAdminExt("driver-admin");
                configure(admin, request);
                admin.start();
                admins.put(namesrv, admin);
            }
            return admin;
        }
    }

    // ---------------------------------------------------------------- producing

    private JsonObject producerStart(Request request) throws Exception {
        DefaultMQProducer producer = request.has("transactional")
            ? transactional(request)
            : new DefaultMQProducer(request.text("group"), null, request.flag("trace"), null);
        configure(producer, request);
        request.ifNumber("retryTimes", producer::setRetryTimesWhenSendFailed);
        request.ifNumber("retryTimes", producer::setRetryTimesWhenSendAsyncFailed);
        request.ifNumber("compressThreshold", producer::setCompressMsgBodyOverHowmuch);
        request.ifNumber("createTopicQueueNums", producer::setDefaultTopicQueueNums);
        request.ifNumber("sendTimeoutMs", producer::setSendMsgTimeout);
        request.ifNumber("maxMessageSize", producer::setMaxMessageSize);
        producer.start();
        producers.put(request.text("name"), producer);
        return started(producer);
    }

    /** It does what each message says, so that any producer of the group can answer for another. */
    private DefaultMQProducer transactional(Request request) {
        TransactionMQProducer producer = new TransactionMQProducer(request.text("group"));
        Collection<String> executed = ConcurrentHashMap.newKeySet();
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                executed.add(message.getTransactionId());
                return state(message.getUserProperty("outcome"));
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                JsonObject event = describe(message);
                event.addProperty("event", "message");
                event.addProperty("consumer", request.text("name"));
                event.addProperty("accepted", true);
                emit(event);
                boolean known = message.getUserProperty("ifExecuted") == null
                    || executed.contains(message.getTransactionId());
                return state(known ? message.getUserProperty("checked") : "rollback");
            }
        });
        return producer;
    }

    private static LocalTransactionState state(String word) {
        if (word == null || word.equals("commit")) {
            return LocalTransactionState.COMMIT_MESSAGE;
        }
        return word.equals("rollback") ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.UNKNOW;
    }

    private JsonObject producerStop(Request request) {
        known(producers, request.text("name")).shutdown();
        producers.remove(request.text("name"));
        return new JsonObject();
    }

    private JsonObject send(Request request) throws Exception {
        Message message = message(request);
        setProperties(message, request);
        SendResult result = waitFor(dispatch(known(producers, request.text("name")), message, request));
        JsonObject fields = sent(message, result);
        for (Method method : SendResult.class.getMethods()) {
            if (method.getName().equals("getRecallHandle") && result != null) {
                fields.addProperty("recallHandle", (String) method.invoke(result));
            }
        }
        return fields;
    }

    /** Sends a message whose consumer replies to it, and waits for the reply. */
    private JsonObject request(Request request) throws Exception {
        DefaultMQProducer producer = known(producers, request.text("name"));
        Message reply = producer.request(message(request), request.number("timeoutMs", 10_000));
        return object("message", describe((MessageExt) reply));
    }

    /** The future holds null for a oneway send. */
    private static CompletableFuture<SendResult> dispatch(DefaultMQProducer producer, Message message, Request request)
        throws Exception {
        MessageQueueSelector selector = selector(request);
        CompletableFuture<SendResult> future = new CompletableFuture<>();
        switch (request.text("mode", "sync")) {
            case "sync":
                if (producer instanceof TransactionMQProducer) {
                    future.complete(producer.sendMessageInTransaction(message, null));
                    break;
                }
                future.complete(selector == null ? producer.send(message) : producer.send(message, selector, null));
                break;
            case "oneway":
                if (selector == null) {
                    producer.sendOneway(message);
                } else {
                    producer.sendOneway(message, selector, null);
                }
                future.complete(null);
                break;
            case "async":
                if (selector == null) {
                    producer.send(message, callback(future));
                } else {
                    producer.send(message, selector, null, callback(future));
                }
                break;
            default:
                throw new IllegalArgumentException("mode " + request.text("mode"));
        }
        return future;
    }

    private static SendCallback callback(CompletableFuture<SendResult> future) {
        return new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                future.complete(result);
            }

            @Override
            public void onException(Throwable error) {
                future.completeExceptionally(error);
            }
        };
    }

    private static SendResult waitFor(CompletableFuture<SendResult> future) throws Exception {
        try {
            return future.get();
        } catch (ExecutionException error) {
            throw error.getCause() instanceof Exception ? (Exception) error.getCause() : error;
        }
    }

    /** Null when the client shall choose the queue. */
    private static MessageQueueSelector selector(Request request) {
        if (!request.has("queueId")) {
            return null;
        }
        return (queues, message, argument) -> pick(queues, request);
    }

    private static MessageQueue pick(Collection<MessageQueue> queues, Request request) {
        String broker = request.text("brokerName", null);
        for (MessageQueue queue : queues) {
            boolean rightBroker = broker == null || broker.equals(queue.getBrokerName());
            if (rightBroker && queue.getQueueId() == request.number("queueId")) {
                return queue;
            }
        }
        throw new IllegalArgumentException("no queue " + request.number("queueId") + " among " + queues);
    }

    private static Message message(Request request) {
        Message message = new Message(request.text("topic"), request.bytes("body"));
        message.setFlag(request.number("flag", 0));
        if (request.has("tags")) {
            message.setTags(request.text("tags"));
        }
        if (request.has("keys")) {
            message.setKeys(request.text("keys"));
        }
        request.ifNumber("delayLevel", message::setDelayTimeLevel);
        if (request.has("properties")) {
            for (Map.Entry<String, JsonElement> property : request.json.getAsJsonObject("properties").entrySet()) {
                message.putUserProperty(property.getKey(), property.getValue().getAsString());
            }
        }
        return message;
    }

    /** Takes a delayed message back; 5.x clients only. */
    private JsonObject recall(Request request) throws Exception {
        DefaultMQProducer producer = known(producers, request.text("name"));
        for (Method method : producer.getClass().getMethods()) {
            if (method.getName().equals("recallMessage")) {
                try {
                    return object("msgId", method.invoke(producer, request.text("topic"), request.text("handle")));
                } catch (InvocationTargetException error) {
                    throw error.getCause() instanceof Exception ? (Exception) error.getCause() : error;
                }
            }
        }
        throw new Unsupported("recallMessage");
    }

    private static JsonObject sent(Message message, SendResult result) {
        JsonObject fields = new JsonObject();
        if (result == null) {
            fields.addProperty("msgId", MessageClientIDSetter.getUniqID(message));
            return fields;
        }
        fields.addProperty("sendStatus", result.getSendStatus().name());
        fields.addProperty("msgId", result.getMsgId());
        fields.addProperty("offsetMsgId", result.getOffsetMsgId());
        fields.addProperty("brokerName", result.getMessageQueue().getBrokerName());
        fields.addProperty("queueId", result.getMessageQueue().getQueueId());
        fields.addProperty("queueOffset", result.getQueueOffset());
        return fields;
    }

    private JsonObject sendBatch(Request request) throws Exception {
        List<Message> messages = new ArrayList<>();
        for (JsonElement each : request.json.getAsJsonArray("messages")) {
            messages.add(message(new Request(each.getAsJsonObject())));
        }
        DefaultMQProducer producer = known(producers, request.text("name"));
        if (!request.has("queueId")) {
            return sent(null, producer.send(messages));
        }
        Collection<MessageQueue> queues = producer.fetchPublishMessageQueues(messages.get(0).getTopic());
        return sent(null, producer.send(messages, pick(queues, request)));
    }

    /** Sends bodies template.body + "0", "1", ... ; see numbered() for what else varies. */
    private JsonObject sendMany(Request request) throws Exception {
        DefaultMQProducer producer = known(producers, request.text("name"));
        int count = request.number("count");
        Batch batch = new Batch(count);
        Semaphore inFlight = new Semaphore(request.number("concurrency", 1));
        boolean async = request.text("mode", "sync").equals("async");
        for (int n = 0; n < count; n++) {
            int index = request.number("start", 0) + n;
            inFlight.acquire();
            Runnable one = () -> sendNumbered(producer, request, index, batch, inFlight);
            if (async) {
                one.run();
            } else {
                pool.execute(one);
            }
        }
        batch.done.await();
        return batch.report();
    }

    private static void sendNumbered(
        DefaultMQProducer producer, Request many, int index, Batch batch, Semaphore inFlight) {
        Request request = numbered(many, index);
        Message message = message(request);
        try {
            dispatch(producer, message, request).whenComplete((result, error) -> {
                batch.add(index, message, result, error);
                inFlight.release();
            });
        } catch (Exception error) {
            batch.add(index, message, null, error);
            inFlight.release();
        }
    }

    /**
     * The template for one index: the number is appended to the body, an array holds alternatives taken in turn,
     * and "{i}" in a text or property stands for the number.
     */
    private static Request numbered(Request many, int index) {
        JsonObject one = new JsonObject();
        for (Map.Entry<String, JsonElement> field : many.json.getAsJsonObject("template").entrySet()) {
            one.add(field.getKey(), substituted(field.getValue(), index));
        }
        byte[] prefix = new Request(one).bytes("body");
        byte[] number = Integer.toString(index).getBytes(StandardCharsets.US_ASCII);
        byte[] body = Arrays.copyOf(prefix, prefix.length + number.length);
        System.arraycopy(number, 0, body, prefix.length, number.length);
        one.addProperty("body", Base64.getEncoder().encodeToString(body));
        one.addProperty("mode", many.text("mode", "sync"));
        return new Request(one);
    }

    private static JsonElement substituted(JsonElement value, int index) {
        if (value.isJsonArray()) {
            JsonArray turns = value.getAsJsonArray();
            return substituted(turns.get(index % turns.size()), index);
        }
        if (value.isJsonObject()) {
            JsonObject copy = new JsonObject();
            value.getAsJsonObject().entrySet().forEach(e -> copy.add(e.getKey(), substituted(e.getValue(), index)));
            return copy;
        }
        boolean text = value.isJsonPrimitive() && value.getAsJsonPrimitive().isString();
        return text ? new JsonPrimitive(value.getAsString().replace("{i}", Integer.toString(index))) : value;
    }

    /** The outcome of send_many, gathered from many threads. */
    private static final class Batch {
        final CountDownLatch done;
        private final Map<Integer, JsonArray> results = new TreeMap<>();
        private final Map<String, Integer> statuses = new TreeMap<>();
        private final JsonArray errors = new JsonArray();

        Batch(int count) {
            done = new CountDownLatch(count);
        }

        synchronized void add(int index, Message message, SendResult result, Throwable error) {
            if (error == null) {
                JsonObject fields = sent(message, result);
                JsonArray row = new JsonArray();
                row.add(index);
                for (String name : List.of("msgId", "offsetMsgId", "brokerName", "queueId", "queueOffset")) {
                    row.add(fields.has(name) ? fields.get(name) : JsonNull.INSTANCE);
                }
                results.put(index, row);
                statuses.merge(result == null ? "ONEWAY" : result.getSendStatus().name(), 1, Integer::sum);
            } else {
                errors.add(GSON.toJsonTree(new Object[] {index, responseCode(error), error.toString()}));
            }
            done.countDown();
        }

        synchronized JsonObject report() {
            JsonObject report = new JsonObject();
            report.add("results", GSON.toJsonTree(results.values()));
            report.add("statuses", GSON.toJsonTree(statuses));
            report.add("errors", errors);
            return report;
        }
    }

    // ---------------------------------------------------------------- push consumer

    private JsonObject consumerStart(Request request) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(
            request.text("group"), null, new AllocateMessageQueueAveragely(), request.flag("trace"), null);
        configure(consumer, request);
        setProperty(consumer, "messageModel", new JsonPrimitive(request.text("model", "clustering").toUpperCase()));
        if (request.has("clientRebalance")) {
            setProperty(consumer, "clientRebalance", request.json.get("clientRebalance"));
        }
        consumer.setConsumeFromWhere(fromWhere(request));
        if (request.has("timestamp")) {
            consumer.setConsumeTimestamp(consumeTimestamp(request));
        }
        // Without it a consumer that is stopped may forget what its last listener has just done.
        consumer.setAwaitTerminationMillisWhenShutdown(1000);
        request.ifNumber("consumeThreads", consumer::setConsumeThreadMin);
        request.ifNumber("consumeThreads", consumer::setConsumeThreadMax);
        request.ifNumber("pullBatchSize", consumer::setPullBatchSize);
        request.ifNumber("maxReconsumeTimes", consumer::setMaxReconsumeTimes);
        for (Request subscription : subscriptions(request)) {
            consumer.subscribe(subscription.text("topic"), messageSelector(subscription));
        }
        listen(consumer, request);
        consumer.start();
        consumers.put(request.text("name"), consumer);
        return started(consumer);
    }

    private void listen(DefaultMQPushConsumer consumer, Request request) {
        Judge judge = new Judge(request);
        if (request.flag("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                boolean good = judge.accept(messages);
                request.ifNumber("suspendMs", ms -> context.setSuspendCurrentQueueTimeMillis(ms));
                return good ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                boolean good = judge.accept(messages);
                request.ifNumber("retryDelayLevel", context::setDelayLevelWhenNextConsume);
                return good ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER;
            });
        }
    }

    /** Reports every delivery and turns down the first failFirst deliveries of each message (all, if negative). */
    private final class Judge {
        private final String consumer;
        private final int failFirst;
        private final int sleepMs;
        private final String replyBy;
        private final Map<String, Integer> deliveries = new ConcurrentHashMap<>();

        Judge(Request request) {
            consumer = request.text("name");
            failFirst = request.number("failFirst", 0);
            sleepMs = request.number("listenerSleepMs", 0);
            replyBy = request.text("replyBy", null);
        }

        boolean accept(List<MessageExt> messages) {
            boolean good = true;
            for (MessageExt message : messages) {
                int seen = deliveries.merge(message.getMsgId(), 1, Integer::sum);
                boolean accepted = failFirst >= 0 && seen > failFirst;
                JsonObject event = describe(message);
                event.addProperty("event", "message");
                event.addProperty("consumer", consumer);
                event.addProperty("accepted", accepted);
                emit(event);
                good &= accepted;
                if (accepted && replyBy != null) {
                    reply(message);
                }
            }
            return pause(sleepMs) && good;
        }

        private void reply(MessageExt message) {
            try {
                byte[] body = ("re: " + new String(message.getBody(), StandardCharsets.UTF_8)).getBytes(StandardCharsets.UTF_8);
                known(producers, replyBy).send(MessageUtil.createReplyMessage(message, body));
            } catch (Exception error) {
                error.printStackTrace();
            }
        }
    }

    private static boolean pause(int ms) {
        try {
            Thread.sleep(ms);
            return true;
        } catch (InterruptedException stopped) {
            return false;
        }
    }

    private static List<Request> subscriptions(Request request) {
        if (!request.has("subscriptions")) {
            return List.of(request);
        }
        List<Request> each = new ArrayList<>();
        request.json.getAsJsonArray("subscriptions").forEach(item -> each.add(new Request(item.getAsJsonObject())));
        return each;
    }

    private static MessageSelector messageSelector(Request request) {
        boolean sql = request.text("expressionType", "TAG").equals("SQL92");
        String expression = request.text("expression", "*");
        return sql ? MessageSelector.bySql(expression) : MessageSelector.byTag(expression);
    }

    private static ConsumeFromWhere fromWhere(Request request) {
        switch (request.text("from", "last")) {
            case "first":
                return ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET;
            case "last":
                return ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET;
            case "timestamp":
                return ConsumeFromWhere.CONSUME_FROM_TIMESTAMP;
            default:
                throw new IllegalArgumentException("from " + request.text("from"));
        }
    }

    /** The library wants seconds as text in local time. */
    private static String consumeTimestamp(Request request) {
        return new SimpleDateFormat("yyyyMMddHHmmss").format(new Date(request.json.get("timestamp").getAsLong()));
    }

    private JsonObject consumerStop(Request request) {
        known(consumers, request.text("name")).shutdown();
        consumers.remove(request.text("name"));
        return new JsonObject();
    }

    @SuppressWarnings("deprecation") // the only way in, and it is there in both releases
    private JsonObject consumerAssignment(Request request) {
        var rebalance = known(consumers, request.text("name")).getDefaultMQPushConsumerImpl().getRebalanceImpl();
        return object("queues", describeQueues(rebalance.getProcessQueueTable().keySet()));
    }

    // ---------------------------------------------------------------- lite pull consumer

    private JsonObject litePullStart(Request request) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(request.text("group"));
        configure(consumer, request);
        consumer.setConsumeFromWhere(fromWhere(request));
        if (request.has("timestamp")) {
            consumer.setConsumeTimestamp(consumeTimestamp(request));
        }
        consumer.setAutoCommit(!request.has("autoCommit") || request.flag("autoCommit"));
        request.ifNumber("pullBatchSize", consumer::setPullBatchSize);
        for (Request subscription : subscriptions(request)) {
            consumer.subscribe(subscription.text("topic"), messageSelector(subscription));
        }
        consumer.start();
        litePulls.put(request.text("name"), consumer);
        return started(consumer);
    }

    private JsonObject litePullPoll(Request request) {
        JsonArray messages = new JsonArray();
        for (MessageExt message : known(litePulls, request.text("name")).poll(request.number("timeoutMs", 5000))) {
            messages.add(describe(message));
        }
        return object("messages", messages);
    }

    @SuppressWarnings("deprecation") // 5.x prefers commit(), which 4.9 does not have
    private JsonObject litePullCommit(Request request) {
        known(litePulls, request.text("name")).commitSync();
        return new JsonObject();
    }

    private JsonObject litePullAssignment(Request request) throws Exception {
        return object("queues", describeQueues(known(litePulls, request.text("name")).assignment()));
    }

    private JsonObject litePullStop(Request request) {
        known(litePulls, request.text("name")).shutdown();
        litePulls.remove(request.text("name"));
        return new JsonObject();
    }

    // ---------------------------------------------------------------- admin

    /** Queues to write to, or with kind "read", to read from; the same unless the topic is being shrunk. */
    private JsonObject queues(Request request) throws Exception {
        return object("queues", describeQueues(fetchQueues(request, request.text("kind", "write"))));
    }

    private Collection<MessageQueue> fetchQueues(Request request, String kind) throws Exception {
        String topic = request.text("topic");
        var route = admin(request).examineTopicRouteInfo(topic);
        return kind.equals("read")
            ? MQClientInstance.topicRouteData2TopicSubscribeInfo(topic, route)
            : MQClientInstance.topicRouteData2TopicPublishInfo(topic, route).getMessageQueueList();
    }

    private MessageQueue readQueue(Request request) throws Exception {
        return pick(fetchQueues(request, "read"), request);
    }

    private JsonObject searchOffset(Request request) throws Exception {
        long timestamp = request.json.get("timestamp").getAsLong();
        return object("offset", admin(request).searchOffset(readQueue(request), timestamp));
    }

    private JsonObject viewMessage(Request request) throws Exception {
        MessageExt message = admin(request).viewMessage(request.text("topic"), request.text("msgId"));
        return object("message", message == null ? JsonNull.INSTANCE : describe(message));
    }

    private JsonObject queryKey(Request request) throws Exception {
        long begin = request.has("begin") ? request.json.get("begin").getAsLong() : 0;
        long end = request.has("end") ? request.json.get("end").getAsLong() : Long.MAX_VALUE;
        var found = admin(request)
            .queryMessage(request.text("topic"), request.text("key"), request.number("maxNum", 64), begin, end);
        JsonArray messages = new JsonArray();
        found.getMessageList().forEach(message -> messages.add(describe(message)));
        return object("messages", messages);
    }

    private JsonObject createTopic(Request request) throws Exception {
        TopicConfig config = new TopicConfig(request.text("topic"));
        request.ifNumber("readQueueNums", config::setReadQueueNums);
        request.ifNumber("writeQueueNums", config::setWriteQueueNums);
        request.ifNumber("perm", config::setPerm);
        config.setOrder(request.flag("order"));
        admin(request).createAndUpdateTopicConfig(request.text("broker"), config);
        return new JsonObject();
    }

    // ---------------------------------------------------------------- rebalance

    /** What each of the clients gets, in the strategy's own order. Queues and clients are taken as they are given. */
    /** One at a time: what a command prints goes to System.out and System.err, which belong to the whole process. */
    private static synchronized JsonObject mqadmin(Request request) throws Exception {
        List<String> args = new ArrayList<>();
        request.json.getAsJsonArray("args").forEach(arg -> args.add(arg.getAsString()));
        forgetCommands();
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        ByteArrayOutputStream complained = new ByteArrayOutputStream();
        PrintStream out = System.out;
        PrintStream err = System.err;
        System.setOut(new PrintStream(printed, true, "UTF-8"));
        System.setErr(new PrintStream(complained, true, "UTF-8"));
        try {
            MQAdminStartup.main0(args.toArray(new String[0]), null);
        } finally {
            System.setOut(out);
            System.setErr(err);
            System.clearProperty("rocketmq.namesrv.addr");
        }
        JsonObject reply = object("stdout", printed.toString("UTF-8"));
        reply.addProperty("stderr", complained.toString("UTF-8"));
        return reply;
    }

    /** Every run adds its commands to a list and takes the first of a name; some keep a client that was shut down. */
    private static void forgetCommands() throws Exception {
        for (Field field : MQAdminStartup.class.getDeclaredFields()) {
            if (List.class.isAssignableFrom(field.getType())) {
                field.setAccessible(true);
                ((List<?>) field.get(null)).clear();
            }
        }
    }

    private JsonObject allocate(Request request) {
        List<MessageQueue> queues = new ArrayList<>();
        for (JsonElement element : request.json.getAsJsonArray("queues")) {
            Request queue = new Request(element.getAsJsonObject());
            queues.add(new MessageQueue(queue.text("topic"), queue.text("brokerName"), queue.number("queueId")));
        }
        List<String> clients = new ArrayList<>();
        request.json.getAsJsonArray("clients").forEach(client -> clients.add(client.getAsString()));
        AllocateMessageQueueStrategy strategy = strategy(request, queues);
        JsonArray parts = new JsonArray();
        for (String client : clients) {
            JsonArray part = new JsonArray();
            strategy.allocate("group", client, queues, clients).forEach(queue -> part.add(queues.indexOf(queue)));
            parts.add(part);
        }
        return object("parts", parts);
    }

    private static AllocateMessageQueueStrategy strategy(Request request, List<MessageQueue> queues) {
        switch (request.text("strategy")) {
            case "averagely":
                return new AllocateMessageQueueAveragely();
            case "circle":
                return new AllocateMessageQueueAveragelyByCircle();
            case "consistent_hash":
                return new AllocateMessageQueueConsistentHash(request.number("virtualNodes", 10));
            case "by_config":
                AllocateMessageQueueByConfig config = new AllocateMessageQueueByConfig();
                config.setMessageQueueList(queues.subList(0, 1));
                return config;
            case "by_machine_room":
                AllocateMessageQueueByMachineRoom room = new AllocateMessageQueueByMachineRoom();
                room.setConsumeridcs(new TreeSet<>(Arrays.asList(request.text("rooms").split(","))));
                return room;
            case "machine_room_nearby":
                return new AllocateMachineRoomNearby(
                    new AllocateMessageQueueAveragely(), new AllocateMachineRoomNearby.MachineRoomResolver() {
                        @Override
                        public String brokerDeployIn(MessageQueue queue) {
                            return queue.getBrokerName().substring(0, 1);
                        }

                        @Override
                        public String consumerDeployIn(String client) {
                            return client.substring(0, 1);
                        }
                    });
            default:
                throw new Unsupported(request.text("strategy"));
        }
    }

    // ---------------------------------------------------------------- JSON

    private static JsonObject describe(MessageExt message) {
        JsonObject fields = new JsonObject();
        fields.addProperty("topic", message.getTopic());
        fields.addProperty("msgId", message.getMsgId());
        boolean client = message instanceof MessageClientExt;
        fields.addProperty("offsetMsgId", client ? ((MessageClientExt) message).getOffsetMsgId() : null);
        fields.addProperty("brokerName", message.getBrokerName());
        fields.addProperty("queueId", message.getQueueId());
        fields.addProperty("queueOffset", message.getQueueOffset());
        fields.addProperty("tags", message.getTags());
        fields.addProperty("keys", message.getKeys());
        byte[] body = message.getBody();
        fields.addProperty("body", Base64.getEncoder().encodeToString(body == null ? new byte[0] : body));
        fields.add("properties", GSON.toJsonTree(new LinkedHashMap<>(message.getProperties())));
        fields.addProperty("flag", message.getFlag());
        fields.addProperty("sysFlag", message.getSysFlag());
        fields.addProperty("reconsumeTimes", message.getReconsumeTimes());
        fields.addProperty("bornTimestamp", message.getBornTimestamp());
        fields.addProperty("storeTimestamp", message.getStoreTimestamp());
        fields.addProperty("receivedAt", System.currentTimeMillis());
        return fields;
    }

    private static JsonArray describeQueues(Collection<MessageQueue> queues) {
        JsonArray described = new JsonArray();
        queues.stream().sorted().forEach(queue -> {
            JsonObject fields = new JsonObject();
            fields.addProperty("topic", queue.getTopic());
            fields.addProperty("brokerName", queue.getBrokerName());
            fields.addProperty("queueId", queue.getQueueId());
            described.add(fields);
        });
        return described;
    }

    private static JsonObject object(String name, Object value) {
        JsonObject fields = new JsonObject();
        fields.add(name, value instanceof JsonElement ? (JsonElement) value : GSON.toJsonTree(value));
        return fields;
    }

    /** A request line, read field by field; a field that is absent or null has its default. */
    private static final class Request {
        final JsonObject json;

        Request(JsonObject json) {
            this.json = json;
        }

        boolean has(String name) {
            return json.has(name) && !json.get(name).isJsonNull();
        }

        String text(String name) {
            if (!has(name)) {
                throw new IllegalArgumentException("missing field " + name);
            }
            return json.get(name).getAsString();
        }

        String text(String name, String absent) {
            return has(name) ? json.get(name).getAsString() : absent;
        }

        int number(String name) {
            return Integer.parseInt(text(name));
        }

        int number(String name, int absent) {
            return has(name) ? number(name) : absent;
        }

        void ifNumber(String name, IntConsumer use) {
            if (has(name)) {
                use.accept(number(name));
            }
        }

        boolean flag(String name) {
            return has(name) && json.get(name).getAsBoolean();
        }

        byte[] bytes(String name) {
            return Base64.getDecoder().decode(text(name, ""));
        }
    }
}
