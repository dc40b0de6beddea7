/* usemem STEP_MIB MOST_MIB SECONDS SEED: SmarTmem's micro-benchmark. Allocates STEP_MIB more at a time, up to
 * MOST_MIB, and goes through all that it has, verifying and writing every page; then goes on until the time is over.
 * Says "at MIB" before each size, "through MIB" after each pass. Ends with 1 at a wrong page. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "pattern.h"

static int pass(char *memory, uint64_t pages_old, uint64_t pages, uint64_t version) {
    for (uint64_t page = 0; page < pages; page++) {
        uint64_t *words = (uint64_t *)(memory + page * PAGE);
        for (uint64_t n = 0; n < PAGE / SECTOR; n++, words += SECTOR_WORDS) {
            if (page < pages_old && version_of(words, page * 8 + n) != version - 1) {
                printf("WRONG page %lu, version %lu: it says place %lu, version %lu\n", page, version - 1,
                       words[0] / 8, words[1]);
                return 0;
            }
            fill_sector(words, page * 8 + n, version);
        }
    }
    return 1;
}

static uint64_t now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec;
}

int main(int count, char **words) {
    if (count != 5)
        return 2;
    uint64_t step = strtoull(words[1], NULL, 10), most = strtoull(words[2], NULL, 10);
    uint64_t end = now() + strtoull(words[3], NULL, 10), version = mixed(strtoull(words[4], NULL, 10)) >> 8;
    setvbuf(stdout, NULL, _IOLBF, 0);
    char *memory = mmap(NULL, most << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    uint64_t had = 0, has = step;
    do {
        printf("at %lu\n", has);
        if (!pass(memory, had << 8, has << 8, version++))
            return 1;
        printf("through %lu\n", has);
        had = has;
        has = has + step < most ? has + step : most;
    } while (now() < end || had < most);
    puts("done");
    return 0;
}
