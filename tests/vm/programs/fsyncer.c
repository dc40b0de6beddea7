/* fsyncer run FOLDER SEED SECONDS: writes files whose sectors describe themselves, and says "d NAME VERSION" once that
 * version is durable. fsyncer verify FOLDER: says "NAME VERSION" of all that is there, "WRONG NAME" of what is torn.
 *
 *   s00…s31   whole files: written beside, fsync'ed, renamed, folder fsync'ed. One version all through.
 *   log0…     appended, a sector a record, fdatasync'ed. The version is the number of records.
 *   b00…b63   blocks of 4 KiB of one file, written over in place and fdatasync'ed. The version is the oldest sector's.
 *   n00…n15   noise: written, cut, removed, never synced; nothing is promised of it.
 *
 * From time to time it has the kernel drop its page cache and reads all back. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "pattern.h"

enum { SLOTS = 32, BLOCKS = 64, LOGS = 64, RECORDS = 128, NOISES = 16, SLOT_SECTORS_MAX = 128, STEPS_A_LOOK = 200 };

/* Places in the pattern: a kind, a number in it, a sector in that. */
enum { SLOT_KIND = 1, LOG_KIND, BLOCK_KIND, NOISE_KIND };

static uint64_t place(uint64_t kind, uint64_t number, uint64_t sector) {
    return kind << 56 | number << 32 | sector;
}

struct known {
    uint64_t slots[SLOTS], logs[LOGS], blocks[BLOCKS];
};

static int folder;
static int is_wrong;

static void die(const char *what) {
    fprintf(stderr, "fsyncer: %s: %s\n", what, strerror(errno));
    exit(3);
}

static void must(int result, const char *what) {
    if (result < 0)
        die(what);
}

static int open_in(const char *name, int flags) {
    int fd = openat(folder, name, flags | O_CLOEXEC, 0644);
    if (fd < 0 && errno != ENOENT)
        die(name);
    return fd;
}

static void write_all(int fd, const void *bytes, size_t len, off_t at, const char *name) {
    if (pwrite(fd, bytes, len, at) != (ssize_t)len)
        die(name);
}

static void wrong(const char *name, uint64_t sector) {
    printf("WRONG %s sector %lu\n", name, sector);
    is_wrong = 1;
}

/* The version of a whole file, 0 without one. */
static uint64_t slot_version(uint64_t slot) {
    static uint64_t words[SLOT_SECTORS_MAX * SECTOR_WORDS];
    char name[16];
    snprintf(name, sizeof name, "s%02lu", slot);
    int fd = open_in(name, O_RDONLY);
    if (fd < 0)
        return 0;
    ssize_t got = pread(fd, words, sizeof words, 0);
    close(fd);
    must((int)got, name);
    uint64_t version = got >= SECTOR ? version_of(words, place(SLOT_KIND, slot, 0)) : 0;
    for (uint64_t n = 0; n < (uint64_t)got / SECTOR; n++)
        if (version == 0 || version_of(words + n * SECTOR_WORDS, place(SLOT_KIND, slot, n)) != version) {
            wrong(name, n);
            return 0;
        }
    uint64_t sectors = 1 + mixed(version) % SLOT_SECTORS_MAX;
    if ((uint64_t)got != sectors * SECTOR)
        wrong(name, sectors);
    return version;
}

/* How many good records a log begins with. */
static uint64_t log_version(uint64_t log) {
    static uint64_t words[RECORDS * SECTOR_WORDS];
    char name[16];
    snprintf(name, sizeof name, "log%lu", log);
    int fd = open_in(name, O_RDONLY);
    if (fd < 0)
        return 0;
    ssize_t got = pread(fd, words, sizeof words, 0);
    close(fd);
    must((int)got, name);
    uint64_t n = 0;
    while (n < (uint64_t)got / SECTOR && version_of(words + n * SECTOR_WORDS, place(LOG_KIND, log, n)) == n + 1)
        n++;
    return n;
}

/* The oldest version in a block's sectors, 0 if one is torn. */
static uint64_t block_version(int fd, uint64_t block) {
    uint64_t words[PAGE / 8], oldest = UINT64_MAX;
    ssize_t got = pread(fd, words, PAGE, (off_t)(block * PAGE));
    must((int)got, "blocks");
    if (got != PAGE)
        return 0;
    for (uint64_t n = 0; n < PAGE / SECTOR; n++) {
        uint64_t version = version_of(words + n * SECTOR_WORDS, place(BLOCK_KIND, block, n));
        oldest = version < oldest ? version : oldest;
    }
    return oldest;
}

static void look(struct known *known) {
    for (uint64_t n = 0; n < SLOTS; n++)
        known->slots[n] = slot_version(n);
    for (uint64_t n = 0; n < LOGS; n++)
        known->logs[n] = log_version(n);
    int fd = open_in("blocks", O_RDONLY);
    for (uint64_t n = 0; n < BLOCKS; n++)
        known->blocks[n] = fd < 0 ? 0 : block_version(fd, n);
    if (fd >= 0)
        close(fd);
}

static void say_all(const char *mark, const struct known *known) {
    for (uint64_t n = 0; n < SLOTS; n++)
        if (known->slots[n])
            printf("%ss%02lu %lu\n", mark, n, known->slots[n]);
    for (uint64_t n = 0; n < LOGS; n++)
        if (known->logs[n])
            printf("%slog%lu %lu\n", mark, n, known->logs[n]);
    for (uint64_t n = 0; n < BLOCKS; n++)
        if (known->blocks[n])
            printf("%sb%02lu %lu\n", mark, n, known->blocks[n]);
}

static void write_slot(struct known *known, uint64_t slot, uint64_t version) {
    static uint64_t words[SLOT_SECTORS_MAX * SECTOR_WORDS];
    char name[16];
    uint64_t sectors = 1 + mixed(version) % SLOT_SECTORS_MAX;
    snprintf(name, sizeof name, "s%02lu", slot);
    for (uint64_t n = 0; n < sectors; n++)
        fill_sector(words + n * SECTOR_WORDS, place(SLOT_KIND, slot, n), version);
    int fd = open_in("beside", O_WRONLY | O_CREAT | O_TRUNC);
    write_all(fd, words, sectors * SECTOR, 0, "beside");
    must(fsync(fd), "fsync");
    close(fd);
    must(renameat(folder, "beside", folder, name), "rename");
    must(fsync(folder), "fsync of the folder");
    known->slots[slot] = version;
    printf("d %s %lu\n", name, version);
}

static void append(struct known *known) {
    uint64_t log = 0, words[SECTOR_WORDS];
    char name[16];
    while (log < LOGS && known->logs[log] == RECORDS)
        log++;
    if (log == LOGS)
        return;
    snprintf(name, sizeof name, "log%lu", log);
    uint64_t record = known->logs[log];
    int fd = open_in(name, O_WRONLY | O_CREAT);
    fill_sector(words, place(LOG_KIND, log, record), record + 1);
    write_all(fd, words, SECTOR, (off_t)(record * SECTOR), name);
    must(fdatasync(fd), "fdatasync");
    close(fd);
    if (record == 0)
        must(fsync(folder), "fsync of the folder");
    printf("d %s %lu\n", name, known->logs[log] = record + 1);
}

static void write_block(struct known *known, uint64_t block, uint64_t version) {
    static _Alignas(PAGE) uint64_t words[PAGE / 8];
    int direct = version % 2 ? O_DIRECT : 0;
    int fd = open_in("blocks", O_WRONLY | direct);
    for (uint64_t n = 0; n < PAGE / SECTOR; n++)
        fill_sector(words + n * SECTOR_WORDS, place(BLOCK_KIND, block, n), version);
    write_all(fd, words, PAGE, (off_t)(block * PAGE), "blocks");
    must(fdatasync(fd), "fdatasync");
    close(fd);
    known->blocks[block] = version;
    printf("d b%02lu %lu\n", block, version);
}

static void make_noise(uint64_t noise, uint64_t version, uint64_t *seed) {
    uint64_t words[PAGE / 8];
    char name[16];
    snprintf(name, sizeof name, "n%02lu", noise);
    if (drawn(seed) % 4 == 0) {
        unlinkat(folder, name, 0);
        return;
    }
    int fd = open_in(name, O_WRONLY | O_CREAT);
    uint64_t pages = 1 + drawn(seed) % 32;
    for (uint64_t n = 0; n < PAGE / SECTOR; n++)
        fill_sector(words + n * SECTOR_WORDS, place(NOISE_KIND, noise, n), version);
    for (uint64_t n = 0; n < pages; n++)
        write_all(fd, words, PAGE, (off_t)(n * PAGE), name);
    must(ftruncate(fd, (off_t)(pages * PAGE - drawn(seed) % PAGE)), name);
    close(fd);
}

/* All that is known must be there when it is read again from the disk. */
static void look_again(const struct known *known) {
    struct known seen;
    int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "3", 1) != 1)
        die("drop_caches");
    close(fd);
    look(&seen);
    if (is_wrong || memcmp(&seen, known, sizeof seen) != 0) {
        puts("WRONG: what is read back is not what was written");
        say_all("was ", known);
        say_all("is ", &seen);
        exit(1);
    }
    puts("looked");
}

static uint64_t newest(const struct known *known) {
    uint64_t most = 0;
    for (uint64_t n = 0; n < SLOTS; n++)
        most = known->slots[n] > most ? known->slots[n] : most;
    for (uint64_t n = 0; n < BLOCKS; n++)
        most = known->blocks[n] > most ? known->blocks[n] : most;
    return most;
}

static void lay_out_blocks(struct known *known) {
    int fd = open_in("blocks", O_WRONLY | O_CREAT);
    must(ftruncate(fd, BLOCKS * PAGE), "blocks");
    must(fsync(fd), "fsync");
    close(fd);
    must(fsync(folder), "fsync of the folder");
    for (uint64_t n = 0; n < BLOCKS; n++)
        if (known->blocks[n] == 0)
            write_block(known, n, 2);
}

static void step(struct known *known, uint64_t version, uint64_t *seed) {
    uint64_t dice = drawn(seed) % 100, choice = drawn(seed);
    if (dice < 25)
        write_slot(known, choice % SLOTS, version);
    else if (dice < 45)
        append(known);
    else if (dice < 65)
        write_block(known, choice % BLOCKS, version);
    else
        make_noise(choice % NOISES, version, seed);
}

static int run(uint64_t seed, time_t seconds) {
    struct known known;
    time_t end = time(NULL) + seconds;
    look(&known);
    if (is_wrong)
        return 1;
    uint64_t version = newest(&known) + 3;
    lay_out_blocks(&known);
    puts("began");
    for (uint64_t n = 1; time(NULL) < end; n++) {
        step(&known, version++, &seed);
        if (n % STEPS_A_LOOK == 0)
            look_again(&known);
    }
    look_again(&known);
    return 0;
}

int main(int count, char **words) {
    struct known known;
    if (count < 3)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    folder = open(words[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must(folder, words[2]);
    if (strcmp(words[1], "run") == 0 && count == 5)
        return run(strtoull(words[3], NULL, 10), (time_t)strtoull(words[4], NULL, 10));
    if (strcmp(words[1], "verify") != 0)
        return 2;
    look(&known);
    say_all("", &known);
    return is_wrong;
}
