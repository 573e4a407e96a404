import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.Expression;
import org.apache.rocketmq.filter.expression.MQFilterException;

/**
 * Apache's SQL92 filters without a broker. Reads {"filters": [text], "messages": [{property: value}]} and writes, for
 * each filter, null if it is refused, else for each message whether it is let through.
 */
public final class Filters {
    private static final class Input {
        List<String> filters;
        List<Map<String, String>> messages;
    }

    public static void main(String[] args) {
        Input input = new Gson().fromJson(new InputStreamReader(System.in, StandardCharsets.UTF_8), Input.class);
        List<List<Boolean>> answers = new ArrayList<>();
        for (String filter : input.filters) {
            answers.add(answer(filter, input.messages));
        }
        System.out.println(new GsonBuilder().serializeNulls().create().toJson(answers));
    }

    private static List<Boolean> answer(String filter, List<Map<String, String>> messages) {
        try {
            Expression expression = FilterFactory.INSTANCE.get("SQL92").compile(filter);
            List<Boolean> answer = new ArrayList<>();
            for (Map<String, String> message : messages) {
                answer.add(matches(expression, message));
            }
            return answer;
        } catch (MQFilterException error) {
            return null;
        }
    }

    /** As the broker's ExpressionMessageFilter decides. */
    private static boolean matches(Expression expression, Map<String, String> message) {
        try {
            return Boolean.TRUE.equals(expression.evaluate(new EvaluationContext() {
                @Override
                public Object get(String name) {
                    return message.get(name);
                }

                @Override
                public Map<String, Object> keyValues() {
                    return Map.copyOf(message);
                }
            }));
        } catch (Exception error) {
            return false;
        }
    }
}
