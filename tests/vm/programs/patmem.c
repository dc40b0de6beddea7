/* patmem MIB ROUNDS SEED: touches patterned memory, verifies every page in random order, writes each page over as it
 * goes; after the last round it frees all. Says "touched", "verified ROUND", "freed". Ends with 1 at a wrong page. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "pattern.h"

static uint64_t *page_at(char *memory, uint64_t page) {
    return (uint64_t *)(memory + page * PAGE);
}

static void fill_page(uint64_t *words, uint64_t page, uint64_t version) {
    for (uint64_t n = 0; n < PAGE / SECTOR; n++)
        fill_sector(words + n * SECTOR_WORDS, page * 8 + n, version);
}

static int is_right(const uint64_t *words, uint64_t page, uint64_t version) {
    for (uint64_t n = 0; n < PAGE / SECTOR; n++)
        if (version_of(words + n * SECTOR_WORDS, page * 8 + n) != version)
            return 0;
    return 1;
}

/* Verifies every page once, in an order that a full-period generator draws, and raises its version. */
static int pass(char *memory, uint64_t pages, uint64_t version, uint64_t *seed) {
    uint64_t period = 1;
    while (period < pages)
        period *= 2;
    uint64_t page = drawn(seed) % period, step = drawn(seed) | 1;
    for (uint64_t n = 0; n < period; n++) {
        page = (page * 5 + step) % period;
        if (page >= pages)
            continue;
        uint64_t *words = page_at(memory, page);
        if (!is_right(words, page, version)) {
            printf("WRONG page %lu, version %lu: it says place %lu, version %lu\n", page, version, words[0] / 8, words[1]);
            return 0;
        }
        fill_page(words, page, version + 1);
    }
    return 1;
}

int main(int count, char **words) {
    if (count != 4)
        return 2;
    uint64_t bytes = strtoull(words[1], NULL, 10) << 20, rounds = strtoull(words[2], NULL, 10);
    uint64_t seed = strtoull(words[3], NULL, 10), first = mixed(seed) >> 8;
    setvbuf(stdout, NULL, _IOLBF, 0);
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    for (uint64_t page = 0; page < bytes / PAGE; page++)
        fill_page(page_at(memory, page), page, first);
    puts("touched");
    for (uint64_t round = 0; round < rounds; round++) {
        if (!pass(memory, bytes / PAGE, first + round, &seed))
            return 1;
        printf("verified %lu\n", round + 1);
    }
    munmap(memory, bytes);
    puts("freed");
    return 0;
}
