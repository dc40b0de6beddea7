/* Stores pages with a daemon and fetches them again.
 *
 * cargo rustc -p sublet-client --lib --release --crate-type cdylib --no-default-features --features ffi
 * cc -Icrates/client/include crates/client/examples/ring.c -Ltarget/release -lsublet_client -o ring
 * LD_LIBRARY_PATH=target/release ./ring SOCKET
 */

#include "sublet_ring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Pages of the batch, as many as a read-ahead of 128 KiB. */
enum { PAGES = 32 };

/* Prints what went wrong, and where, if something did. */
static int check(const char *what, int code)
{
    if (code < 0) {
        char text[256];
        sublet_text(code, text, sizeof text);
        fprintf(stderr, "ring: %s: %s\n", what, text);
        exit(EXIT_FAILURE);
    }
    return code;
}

static sublet_key key(uint64_t pool, uint32_t index)
{
    sublet_key key = {.pool = pool, .object = 7, .index = index};
    return key;
}

/* Stores one page and fetches it. An ephemeral pool's hit takes the page. */
static void alone(sublet_ring *ring, uint64_t pool)
{
    unsigned char page[SUBLET_PAGE_BYTES];
    memset(page, 42, sizeof page);
    check("put", sublet_put(ring, key(pool, 0), page));
    memset(page, 0, sizeof page);
    int first = check("get", sublet_get(ring, key(pool, 0), page));
    printf("get: %s, its first byte is %d\n", first == SUBLET_OK ? "hit" : "miss", page[0]);
    int second = check("get", sublet_get(ring, key(pool, 0), page));
    printf("get again: %s\n", second == SUBLET_OK ? "hit" : "miss");
}

/* Sends many pages in one batch. They are filled and read in place. */
static void together(sublet_ring *ring, uint64_t pool)
{
    int hits = 0;
    check("batch", sublet_batch_begin(ring));
    for (uint32_t n = 0; n < PAGES; n++) {
        void *page;
        check("batch", sublet_batch_put(ring, key(pool, n), &page));
        memset(page, (int)n, SUBLET_PAGE_BYTES);
    }
    check("batch", sublet_batch_run(ring));

    check("batch", sublet_batch_begin(ring));
    for (uint32_t n = 0; n < PAGES; n++)
        check("batch", sublet_batch_get(ring, key(pool, n)));
    check("batch", sublet_batch_run(ring));
    for (uint32_t n = 0; n < PAGES; n++) {
        const unsigned char *page = sublet_batch_page(ring, n);
        if (page == NULL)
            continue;
        if (page[0] != n || page[SUBLET_PAGE_BYTES - 1] != n) {
            fprintf(stderr, "ring: page %u is not what was put\n", n);
            exit(EXIT_FAILURE);
        }
        hits++;
    }
    printf("batch: %d of %d pages came back\n", hits, PAGES);
}

/* Sends pages at consecutive indices as one request, and flushes them as one. */
static void runs(sublet_ring *ring, uint64_t pool)
{
    void *pages;
    sublet_run stored, hits;
    check("batch", sublet_batch_begin(ring));
    int put = check("batch", sublet_batch_put_run(ring, key(pool, 100), 4, &pages));
    memset(pages, 5, 4 * SUBLET_PAGE_BYTES);
    check("batch", sublet_batch_flush_run(ring, key(pool, 101), 2));
    int get = check("batch", sublet_batch_get_run(ring, key(pool, 100), 4));
    check("batch", sublet_batch_flush_object(ring, pool, 7));
    check("batch", sublet_batch_run(ring));
    check("put a run", sublet_batch_outcome_of_run(ring, put, &stored));
    check("get a run", sublet_batch_outcome_of_run(ring, get, &hits));
    const unsigned char *last = sublet_batch_page_of_run(ring, get, 3);
    if (last != NULL && last[0] != 5) {
        fprintf(stderr, "ring: the last page is not what was put\n");
        exit(EXIT_FAILURE);
    }
    printf("run: stored %#llx, came back %#llx\n", (unsigned long long)stored.done,
           (unsigned long long)hits.done);
}

int main(int count, char **words)
{
    if (count != 2) {
        fprintf(stderr, "usage: ring SOCKET\n");
        return 2;
    }
    sublet_ring *ring;
    uint64_t pool;
    check("connect", sublet_connect(words[1], 0, 0, &ring));
    check("create a pool", sublet_create_pool(ring, 0, NULL, &pool));
    alone(ring, pool);
    together(ring, pool);
    runs(ring, pool);
    check("flush", sublet_flush_object(ring, pool, 7));
    check("destroy the pool", sublet_destroy_pool(ring, pool));
    sublet_close(ring);
    return 0;
}
