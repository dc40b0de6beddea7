package sublet;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.ConnectionFactoryBuilder.Protocol;
import net.spy.memcached.MemcachedClient;
import net.spy.memcached.auth.AuthDescriptor;
import net.spy.memcached.auth.PlainCallbackHandler;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** spymemcached: SASL PLAIN over the binary protocol. */
final class SaslTest {
    @TempDir
    Path folder;

    @BeforeEach
    void needsOurUsers() {
        assumeFalse(Node.isPeer(), "a memcached keeps its SASL users outside");
    }

    private Node guarded() throws Exception {
        Path users = Files.writeString(folder.resolve("users"), "alice:secret\n");
        return Node.start("memcached", Map.of("MEMCACHED_SASL_PWDB", users.toString()), "-S");
    }

    private static MemcachedClient client(Node node, String password) throws Exception {
        AuthDescriptor who = new AuthDescriptor(new String[] {"PLAIN"}, new PlainCallbackHandler("alice", password));
        ConnectionFactoryBuilder builder = new ConnectionFactoryBuilder()
                .setProtocol(Protocol.BINARY)
                .setAuthDescriptor(who)
                .setAuthWaitTime(5_000)
                .setOpTimeout(5_000)
                .setDaemon(true);
        return new MemcachedClient(builder.build(), List.of(node.address()));
    }

    @Test
    void theRightPasswordOpens() throws Exception {
        try (Node node = guarded()) {
            MemcachedClient client = client(node, "secret");
            assertTrue(client.set("k", 0, "x").get());
            assertEquals("x", client.get("k"));
            client.shutdown();
        }
    }

    @Test
    void aWrongPasswordDoesNot() throws Exception {
        try (Node node = guarded()) {
            MemcachedClient client = client(node, "guess");
            assertThrows(Exception.class, () -> client.get("k"));
            client.shutdown();
        }
    }
}
