package sublet;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import net.spy.memcached.CASResponse;
import net.spy.memcached.CASValue;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.ConnectionFactoryBuilder.Locator;
import net.spy.memcached.ConnectionFactoryBuilder.Protocol;
import net.spy.memcached.DefaultHashAlgorithm;
import net.spy.memcached.FailureMode;
import net.spy.memcached.MemcachedClient;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** spymemcached: text and binary protocol, ketama. */
final class SpymemcachedTest {
    static Stream<Arguments> facesAndProtocols() {
        return Node.faces().flatMap(face -> Stream.of(Protocol.values()).map(protocol -> Arguments.of(face, protocol)));
    }

    private static MemcachedClient client(Protocol protocol, Node... nodes) throws Exception {
        ConnectionFactoryBuilder builder = new ConnectionFactoryBuilder()
                .setProtocol(protocol)
                .setLocatorType(Locator.CONSISTENT)
                .setHashAlg(DefaultHashAlgorithm.KETAMA_HASH)
                .setFailureMode(FailureMode.Retry)
                .setOpTimeout(20_000)
                .setDaemon(true);
        return new MemcachedClient(builder.build(), Stream.of(nodes).map(Node::address).toList());
    }

    @ParameterizedTest
    @MethodSource("facesAndProtocols")
    void storage(String face, Protocol protocol) throws Exception {
        try (Node node = Node.start(face)) {
            MemcachedClient client = client(protocol, node);
            assertNull(client.get("k"));
            assertTrue(client.set("k", 100, "1").get());
            assertFalse(client.add("k", 100, "2").get());
            assertTrue(client.replace("k", 100, "3").get());
            assertFalse(client.replace("nothing", 100, "3").get());
            assertTrue(client.append("k", "4").get());
            assertTrue(client.prepend("k", "2").get());
            assertEquals("234", client.get("k"));
            assertTrue(client.delete("k").get());
            assertFalse(client.delete("k").get());
            client.shutdown();
        }
    }

    @ParameterizedTest
    @MethodSource("facesAndProtocols")
    void objectsComeBack(String face, Protocol protocol) throws Exception {
        try (Node node = Node.start(face)) {
            MemcachedClient client = client(protocol, node);
            byte[] large = new byte[1_000_000];
            IntStream.range(0, large.length).forEach(i -> large[i] = (byte) (i * 31));
            assertTrue(client.set("large", 0, large).get());
            assertArrayEquals(large, (byte[]) client.get("large"));
            assertTrue(client.set("number", 0, 42L).get());
            assertEquals(42L, client.get("number"));
            assertTrue(client.set("list", 0, new ArrayList<>(List.of("a", "b"))).get());
            assertEquals(List.of("a", "b"), client.get("list"));
            client.shutdown();
        }
    }

    @ParameterizedTest
    @MethodSource("facesAndProtocols")
    void bulk(String face, Protocol protocol) throws Exception {
        try (Node node = Node.start(face)) {
            MemcachedClient client = client(protocol, node);
            Map<String, Object> wanted = new HashMap<>();
            List<Future<Boolean>> stored = new ArrayList<>();
            for (int n = 0; n < 2000; n++) {
                wanted.put("key-" + n, "value-" + n);
                stored.add(client.set("key-" + n, 0, "value-" + n));
            }
            for (Future<Boolean> each : stored) {
                assertTrue(each.get());
            }
            List<String> asked = new ArrayList<>(wanted.keySet());
            asked.add("nothing");
            assertEquals(wanted, client.getBulk(asked));
            client.shutdown();
        }
    }

    @ParameterizedTest
    @MethodSource("facesAndProtocols")
    void countersAreNotLost(String face, Protocol protocol) throws Exception {
        try (Node node = Node.start(face)) {
            MemcachedClient client = client(protocol, node);
            assertEquals(-1, client.incr("n", 1));
            assertEquals(10, client.incr("n", 1, 10));
            together(() -> client(protocol, node), each -> {
                for (int turn = 0; turn < 200; turn++) {
                    each.incr("n", 2);
                }
            });
            assertEquals(10 + WORKERS * 200 * 2 - 1, client.decr("n", 1));
            client.shutdown();
        }
    }

    @ParameterizedTest
    @MethodSource("facesAndProtocols")
    void casHasOneWinner(String face, Protocol protocol) throws Exception {
        try (Node node = Node.start(face)) {
            MemcachedClient client = client(protocol, node);
            assertEquals(CASResponse.NOT_FOUND, client.cas("nothing", 1, "x"));
            client.set("n", 0, 0L).get();
            together(() -> client(protocol, node), each -> {
                for (int won = 0; won < 100; ) {
                    CASValue<Object> seen = each.gets("n");
                    CASResponse said = each.cas("n", seen.getCas(), (Long) seen.getValue() + 1);
                    assertTrue(said == CASResponse.OK || said == CASResponse.EXISTS, said.toString());
                    won += said == CASResponse.OK ? 1 : 0;
                }
            });
            assertEquals(WORKERS * 100L, client.get("n"));
            client.shutdown();
        }
    }

    @ParameterizedTest
    @MethodSource("facesAndProtocols")
    void expiryTouchAndFlush(String face, Protocol protocol) throws Exception {
        try (Node node = Node.start(face)) {
            MemcachedClient client = client(protocol, node);
            client.set("brief", 1, "x").get();
            client.set("touched", 1, "x").get();
            assertTrue(client.touch("touched", 100).get());
            for (long deadline = System.currentTimeMillis() + 10_000; client.get("brief") != null; Thread.sleep(50)) {
                assertTrue(System.currentTimeMillis() < deadline, "it never expired");
            }
            assertEquals("x", client.get("touched"));
            assertTrue(client.flush().get());
            assertNull(client.get("touched"));
            client.shutdown();
        }
    }

    @ParameterizedTest
    @MethodSource("facesAndProtocols")
    void statisticsAndVersions(String face, Protocol protocol) throws Exception {
        try (Node node = Node.start(face)) {
            MemcachedClient client = client(protocol, node);
            client.set("k", 0, "x").get();
            assertEquals("1", client.getStats().values().iterator().next().get("curr_items"));
            assertEquals(1, client.getVersions().size());
            client.shutdown();
        }
    }

    @ParameterizedTest
    @MethodSource("facesAndProtocols")
    void oneNodeEndsAndTheOtherKeepsItsItems(String face, Protocol protocol) throws Exception {
        try (Node first = Node.start(face); Node second = Node.start(face)) {
            MemcachedClient client = client(protocol, first, second);
            List<String> keys = IntStream.range(0, 1000).mapToObj(n -> "key-" + n).toList();
            for (String key : keys) {
                client.set(key, 0, key);
            }
            client.waitForQueues(20, SECONDS);
            MemcachedClient alone = client(protocol, first);
            Map<String, Object> kept = alone.getBulk(keys);
            assertTrue(kept.size() > 300 && kept.size() < 700, kept.size() + " of 1000 on one node");
            second.close();
            for (String key : kept.keySet()) {
                assertEquals(key, client.get(key));
            }
            alone.shutdown();
            client.shutdown();
        }
    }

    private static final int WORKERS = 6;

    private interface Maker {
        MemcachedClient make() throws Exception;
    }

    private interface Work {
        void on(MemcachedClient client) throws Exception;
    }

    /** Runs {@code work} on WORKERS clients that start at once. */
    private static void together(Maker maker, Work work) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(WORKERS);
        CountDownLatch gate = new CountDownLatch(WORKERS);
        List<Future<?>> all = new ArrayList<>();
        for (int n = 0; n < WORKERS; n++) {
            all.add(threads.submit(() -> {
                MemcachedClient client = maker.make();
                gate.countDown();
                gate.await();
                work.on(client);
                client.shutdown();
                return null;
            }));
        }
        threads.shutdown();
        for (Future<?> each : all) {
            each.get(60, SECONDS);
        }
    }
}
