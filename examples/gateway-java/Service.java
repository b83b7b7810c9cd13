import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import org.apache.catalina.LifecycleException;
import org.apache.catalina.startup.Tomcat;

/**
 * A servlet that takes orders. It knows nothing of keys and retries: the gateway before it does.
 *
 * <pre>java -cp /usr/share/java/tomcat10-embed-core.jar Service.java [ADDRESS [PAUSE_IN_MS]]</pre>
 */
public class Service extends HttpServlet {
    private static final Path ORDERS = Path.of("orders.txt"); // one line for each order
    private final long pause;

    Service(long pause) {
        this.pause = pause;
    }

    public static void main(String[] args) throws LifecycleException {
        String[] address = (args.length > 0 ? args[0] : "127.0.0.1:9000").split(":");
        Tomcat tomcat = new Tomcat();
        tomcat.setPort(Integer.parseInt(address[1]));
        tomcat.getConnector().setProperty("address", address[0]);
        tomcat.getConnector().setThrowOnFailure(true); // else a port in use is only a line in the log
        Service service = new Service(args.length > 1 ? Long.parseLong(args[1]) : 0);
        Tomcat.addServlet(tomcat.addContext("", null), "orders", service).addMapping("/orders");
        tomcat.start();
        tomcat.getServer().await();
    }

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        answer(response, HttpServletResponse.SC_OK, "{\"orders\":" + count() + "}");
    }

    @Override
    protected void doPost(HttpServletRequest request, HttpServletResponse response) throws ServletException, IOException {
        String item = request.getParameter("item");
        if (item == null || !item.matches("[A-Za-z0-9]+")) {
            answer(response, HttpServletResponse.SC_BAD_REQUEST, "{\"error\":\"send a form like item=tea\"}");
            return;
        }
        int order;
        try {
            order = append(item);
        } catch (IOException e) {
            log("the order was not placed, or is not known to be", e);
            answer(response, HttpServletResponse.SC_INTERNAL_SERVER_ERROR,
                    "{\"error\":\"the order was not placed, or is not known to be\"}");
            return;
        }
        try {
            Thread.sleep(pause); // the order is placed, and the answer is late
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new ServletException("interrupted after order " + order, e);
        }
        answer(response, HttpServletResponse.SC_CREATED, "{\"order\":" + order + "}");
    }

    /** Writes an order to the disk, and returns its number. */
    private static synchronized int append(String item) throws IOException {
        try (FileChannel file = FileChannel.open(ORDERS, StandardOpenOption.CREATE, StandardOpenOption.APPEND)) {
            ByteBuffer line = ByteBuffer.wrap((item + "\n").getBytes(StandardCharsets.UTF_8));
            while (line.hasRemaining()) {
                file.write(line);
            }
            file.force(true);
        }
        return count();
    }

    private static synchronized int count() throws IOException {
        return Files.exists(ORDERS) ? Files.readAllLines(ORDERS).size() : 0;
    }

    private static void answer(HttpServletResponse response, int status, String json) throws IOException {
        response.setStatus(status);
        response.setContentType("application/json");
        response.setCharacterEncoding("UTF-8");
        response.getWriter().write(json);
    }
}
