/* Bytes that say where they belong. Every 512-byte sector holds a place, a version and words that follow from both. */
#ifndef PATTERN_H
#define PATTERN_H

#include <stdint.h>
#include <string.h>

enum { SECTOR = 512, SECTOR_WORDS = SECTOR / 8, PAGE = 4096 };

static inline uint64_t mixed(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* The next of a row of random numbers. */
static inline uint64_t drawn(uint64_t *seed) {
    return mixed((*seed)++);
}

static inline void fill_sector(uint64_t *words, uint64_t place, uint64_t version) {
    uint64_t word = mixed(place * 0x10001 + version);
    words[0] = place;
    words[1] = version;
    for (int n = 2; n < SECTOR_WORDS; n++)
        words[n] = word = word * 6364136223846793005u + 1442695040888963407u;
}

/* The version of a sector that belongs at `place`; 0 when it does not, or is torn. */
static inline uint64_t version_of(const uint64_t *words, uint64_t place) {
    uint64_t wanted[SECTOR_WORDS];
    if (words[0] != place || words[1] == 0)
        return 0;
    fill_sector(wanted, place, words[1]);
    return memcmp(words, wanted, SECTOR) == 0 ? words[1] : 0;
}

#endif
