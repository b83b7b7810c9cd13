import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import java.util.UUID;

/**
 * Orders an item. It makes one key, and sends it with each try until there is an outcome.
 *
 * <pre>java Client.java [URL [KEY [TIMEOUT_IN_MS]]]</pre>
 */
public class Client {
    private static final int TRIES = 60;

    public static void main(String[] args) throws InterruptedException {
        String url = args.length > 0 ? args[0] : "http://127.0.0.1:8080/orders";
        String key = args.length > 1 ? args[1] : UUID.randomUUID().toString();
        long timeout = args.length > 2 ? Long.parseLong(args[2]) : 5000;
        System.out.println("key " + key);
        HttpRequest request = HttpRequest.newBuilder(URI.create(url))
                .timeout(Duration.ofMillis(timeout))
                .header("Content-Type", "application/x-www-form-urlencoded")
                .header("Authorization", "Basic " + Base64.getEncoder().encodeToString("ann:".getBytes(StandardCharsets.UTF_8)))
                .header("Idempotency-Key", key)
                .POST(HttpRequest.BodyPublishers.ofString("item=tea"))
                .build();
        System.exit(order(request) ? 0 : 1);
    }

    /** Sends the request until it is answered for good, and reports whether the item is ordered. */
    private static boolean order(HttpRequest request) throws InterruptedException {
        HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        for (int i = 0; i < TRIES; i++) {
            long seconds = 1;
            try {
                HttpResponse<String> answer = client.send(request, BodyHandlers.ofString());
                boolean replayed = answer.headers().firstValue("Idempotency-Replayed").orElse("").equals("true");
                System.out.println(answer.statusCode() + " " + answer.body().strip() + (replayed ? " replayed" : ""));
                if (answer.statusCode() / 100 == 2) {
                    return true;
                }
                var wait = answer.headers().firstValueAsLong("Retry-After"); // not now
                if (wait.isEmpty() && answer.statusCode() < 500) {
                    return false; // a refusal, or an outcome that the gateway does not know
                }
                seconds = wait.orElse(1);
            } catch (IOException e) { // refused, cut off, too late
                System.out.println("no answer: " + e);
            }
            Thread.sleep(Duration.ofSeconds(seconds).toMillis());
        }
        return false;
    }
}
