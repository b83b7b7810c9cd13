import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.catalina.Context;
import org.apache.catalina.servlets.DefaultServlet;
import org.apache.catalina.startup.Tomcat;

/**
 * A servlet in Tomcat, which Spring Boot starts too, as a user writes it: java -cp
 * /usr/share/java/tomcat10-embed-core.jar Service.java 127.0.0.1:9000
 */
public class Service extends HttpServlet {
    private static int votes;

    public static void main(String[] args) throws Exception {
        String[] address = args[0].split(":");
        Path pages = Files.createTempDirectory("pages");
        Files.writeString(pages.resolve("page.txt"), "page ".repeat(100));
        pages.toFile().deleteOnExit();
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(pages.toString());
        tomcat.setPort(Integer.parseInt(address[1]));
        tomcat.getConnector().setProperty("address", address[0]);
        tomcat.getConnector().setProperty("compression", "100");
        tomcat.getConnector().setProperty("compressibleMimeType", "text/plain");
        tomcat.getConnector().setThrowOnFailure(true);
        Context context = tomcat.addContext("", pages.toString());
        context.addMimeMapping("txt", "text/plain");
        // A class of its own: Tomcat looks at its annotations, whose classes are not in the jar.
        Tomcat.addServlet(context, "default", new DefaultServlet() {}).addMapping("/");
        var service = Tomcat.addServlet(context, "service", new Service());
        for (String path : new String[] {"/votes", "/votes/", "/count", "/stream", "/empty", "/upload"}) {
            service.addMapping(path);
        }
        tomcat.start();
        tomcat.getServer().await();
    }

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        synchronized (Service.class) {
            response.getWriter().print(votes);
        }
    }

    @Override
    protected void doPost(HttpServletRequest request, HttpServletResponse response) throws IOException {
        int size = request.getInputStream().readAllBytes().length;
        response.setContentType("text/plain");
        switch (request.getServletPath()) {
            case "/votes" -> {
                response.setStatus(307);
                response.setHeader("Location", request.getRequestURL() + "/");
            }
            case "/votes/" -> {
                synchronized (Service.class) {
                    votes++;
                    String cookie = "session=ann; Path=/; Domain=" + request.getServerName();
                    response.setHeader("Set-Cookie", cookie);
                    response.setHeader("Location", request.getRequestURL().toString() + votes);
                    response.setStatus(201);
                    response.getWriter().print("{\"votes\":" + votes + "}");
                }
            }
            case "/stream" -> {
                for (int i = 0; i < 3; i++) {
                    response.getWriter().print("part " + i + " of " + size + "\n");
                    response.flushBuffer();
                }
            }
            case "/empty" -> response.setStatus(204);
            default -> response.getWriter().print("{\"bytes\": " + size + "}");
        }
    }
}
