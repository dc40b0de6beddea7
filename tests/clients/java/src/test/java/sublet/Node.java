package sublet;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/** The program under test, running. */
final class Node implements AutoCloseable {
    private static final long START_MS_MAX = 20_000;

    private final Process process;
    private final int port;

    /** The ways in which the program under test serves the protocol. */
    static Stream<String> faces() {
        return isPeer() ? Stream.of("peer") : Stream.of("memcached", "serve");
    }

    static boolean isPeer() {
        return "peer".equals(System.getenv("NODE_FACE"));
    }

    static Node start(String face, String... options) throws Exception {
        return start(face, Map.of(), options);
    }

    static Node start(String face, Map<String, String> environment, String... options) throws Exception {
        int port = freePort();
        List<String> words = new ArrayList<>();
        words.add(Path.of("..", "start-node").toAbsolutePath().normalize().toString());
        words.addAll(List.of(face, Integer.toString(port)));
        words.addAll(List.of(options));
        ProcessBuilder builder = new ProcessBuilder(words).redirectErrorStream(true);
        builder.redirectOutput(ProcessBuilder.Redirect.DISCARD).environment().putAll(environment);
        Node node = new Node(builder.start(), port);
        node.await();
        return node;
    }

    private Node(Process process, int port) {
        this.process = process;
        this.port = port;
    }

    InetSocketAddress address() {
        return new InetSocketAddress("127.0.0.1", port);
    }

    @Override
    public void close() throws InterruptedException {
        process.destroyForcibly().waitFor();
    }

    private static int freePort() throws IOException {
        try (ServerSocket probe = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return probe.getLocalPort();
        }
    }

    private void await() throws InterruptedException {
        for (long deadline = System.currentTimeMillis() + START_MS_MAX; !answers(); Thread.sleep(10)) {
            if (!process.isAlive() || System.currentTimeMillis() > deadline) {
                throw new AssertionError("the node does not answer");
            }
        }
    }

    private boolean answers() {
        try (Socket socket = new Socket()) {
            socket.connect(address(), 1000);
            return true;
        } catch (IOException error) {
            return false;
        }
    }
}
