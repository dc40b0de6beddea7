/* lossyfs BACKING FOLDER: a file system with one file, FOLDER/disk, which forgets as a drive does that loses its power.
 * What is written is seen at once, but lies in memory until an fsync covers it; only then BACKING has it. Words
 * written to FOLDER/control:
 *
 *   cut SEED                        power goes: of what no fsync covered some pieces reach BACKING, the rest is lost.
 *                                   Handles that were open before are dead: they get EIO.
 *   fail KIND AFTER COUNT ERROR     of requests of KIND (read, write, sync) AFTER go well, the next COUNT get ERROR
 *                                   (EIO, ENOSPC).
 *   stall KIND AFTER COUNT MILLIS   the same, but they take MILLIS longer.
 *   clear                           no more of both.
 *
 * FOLDER/control says what it counted. A write with O_DSYNC or RWF_DSYNC is its own fsync. */
#define FUSE_USE_VERSION 312
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DISK = 2, CONTROL = 3, UNIT = 4096, SECTOR = 512, PIECE_SECTORS_MAX = 8, RULES_MAX = 8 };
enum { REQUEST_BYTES_MAX = 1 << 20 };

/* A drive's own memory has an end as well: what lies in it longest is written then. */
static const size_t PENDING_BYTES_MAX = 256u << 20;

enum kind { READ, WRITE, SYNC, KINDS };
static const char *const KIND_NAMES[KINDS] = {"read", "write", "sync"};

struct change {
    struct change *next;
    off_t at;
    size_t len;
    int is_hole;
    char bytes[];
};

struct rule {
    enum kind kind;
    unsigned long after, count, millis;
    int error;
};

struct piece {
    const struct change *change;
    size_t from, len;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int backing;
static off_t size;
static char *lasting; /* BACKING, shared */
static char *seen;    /* BACKING, private: what is pending lies over it */
static unsigned char *has_bytes; /* a flag a unit: not a hole, as seen */
static struct change *oldest, **newest = &oldest;
static size_t pending_bytes;
static unsigned long pending, counts[KINDS], cuts, kept, lost;
static struct rule rules[RULES_MAX];

static unsigned long long drawn(unsigned long long *seed) {
    unsigned long long x = *seed += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* ---- what is seen and what lasts */

static off_t rounded_up(off_t at) {
    return (at + UNIT - 1) / UNIT * UNIT;
}

static void mark(off_t at, size_t len, int is_hole) {
    off_t end = at + (off_t)len;
    off_t first = is_hole ? rounded_up(at) : at / UNIT * UNIT, after = is_hole ? end / UNIT * UNIT : rounded_up(end);
    if (is_hole && end == size)
        after = rounded_up(end);
    if (after > first)
        memset(has_bytes + first / UNIT, !is_hole, (size_t)((after - first) / UNIT));
}

static void mark_all(void) {
    memset(has_bytes, 0, (size_t)(rounded_up(size) / UNIT));
    for (off_t at = 0, end; (at = lseek(backing, at, SEEK_DATA)) >= 0 && at < size; at = end) {
        end = lseek(backing, at, SEEK_HOLE);
        mark(at, (size_t)(end - at), 0);
    }
}

static void make_last(const struct change *change, size_t from, size_t len) {
    off_t at = change->at + (off_t)from;
    if (change->is_hole)
        fallocate(backing, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, (off_t)len);
    else
        memcpy(lasting + at, change->bytes + from, len);
}

static void drop_oldest(void) {
    struct change *change = oldest;
    oldest = change->next;
    if (oldest == NULL)
        newest = &oldest;
    pending--;
    pending_bytes -= change->is_hole ? 0 : change->len;
    free(change);
}

static void make_oldest_last(void) {
    make_last(oldest, 0, oldest->len);
    drop_oldest();
}

static void forget_private_copies(void) {
    madvise(seen, (size_t)rounded_up(size), MADV_DONTNEED);
}

static void sync_all(void) {
    while (oldest)
        make_oldest_last();
    forget_private_copies();
}

static int change(off_t at, size_t len, const char *bytes) {
    struct change *new = malloc(sizeof *new + (bytes ? len : 0));
    if (new == NULL)
        return ENOMEM;
    *new = (struct change){.at = at, .len = len, .is_hole = bytes == NULL};
    if (bytes) {
        memcpy(new->bytes, bytes, len);
        memcpy(seen + at, bytes, len);
        pending_bytes += len;
    } else {
        memset(seen + at, 0, len);
    }
    mark(at, len, bytes == NULL);
    *newest = new;
    newest = &new->next;
    pending++;
    while (pending_bytes > PENDING_BYTES_MAX)
        make_oldest_last();
    return 0;
}

/* ---- the cut */

static size_t piece_len(const struct change *change, size_t from, unsigned long long *seed) {
    size_t len = SECTOR * (1 + drawn(seed) % PIECE_SECTORS_MAX), rest = change->len - from;
    return len < rest ? len : rest;
}

/* The pieces that survive, of each change with the same chance; `pieces` may be NULL, to count. */
static size_t choose(struct piece *pieces, unsigned long long seed) {
    static const unsigned CHANCES[] = {0, 10, 50, 50, 90};
    unsigned chance = CHANCES[drawn(&seed) % (sizeof CHANCES / sizeof *CHANCES)];
    size_t chosen = 0, left_out = 0;
    for (const struct change *change = oldest; change; change = change->next)
        for (size_t from = 0, len; from < change->len; from += len) {
            len = piece_len(change, from, &seed);
            if (drawn(&seed) % 100 >= chance) {
                left_out++;
                continue;
            }
            if (pieces)
                pieces[chosen] = (struct piece){change, from, len};
            chosen++;
        }
    if (pieces) {
        kept += chosen;
        lost += left_out;
    }
    return chosen;
}

static int cut(unsigned long long seed) {
    size_t count = choose(NULL, seed);
    struct piece *pieces = malloc((count + 1) * sizeof *pieces);
    if (pieces == NULL)
        return ENOMEM;
    choose(pieces, seed);
    for (size_t n = count; n > 0; n--) {
        size_t other = drawn(&seed) % n;
        struct piece piece = pieces[other];
        pieces[other] = pieces[n - 1];
        make_last(piece.change, piece.from, piece.len);
    }
    free(pieces);
    while (oldest)
        drop_oldest();
    forget_private_copies();
    mark_all();
    cuts++;
    return 0;
}

/* ---- faults on order */

static int kind_named(const char *name) {
    int kind = 0;
    while (kind < KINDS && strcmp(name, KIND_NAMES[kind]) != 0)
        kind++;
    return kind;
}

static int error_named(const char *name) {
    return strcmp(name, "EIO") == 0 ? EIO : strcmp(name, "ENOSPC") == 0 ? ENOSPC : 0;
}

static int add_rule(struct rule new) {
    for (struct rule *rule = rules; rule < rules + RULES_MAX; rule++)
        if (rule->count == 0) {
            *rule = new;
            return 0;
        }
    return ENOSPC;
}

static int obey(const char *words) {
    char kind[8], error[8];
    struct rule rule = {0};
    unsigned long long seed;
    if (sscanf(words, "cut %llu", &seed) == 1)
        return cut(seed);
    if (strncmp(words, "clear", 5) == 0) {
        memset(rules, 0, sizeof rules);
        return 0;
    }
    if (sscanf(words, "fail %7s %lu %lu %7s", kind, &rule.after, &rule.count, error) == 4)
        rule.error = error_named(error);
    else if (sscanf(words, "stall %7s %lu %lu %lu", kind, &rule.after, &rule.count, &rule.millis) != 4)
        return EINVAL;
    rule.kind = (enum kind)kind_named(kind);
    return rule.kind == KINDS || (rule.error == 0 && rule.millis == 0) ? EINVAL : add_rule(rule);
}

/* Counts a request; the error that it gets, after the time that it takes. Called and left with the lock. */
static int fault(enum kind kind) {
    int error = 0;
    unsigned long millis = 0;
    counts[kind]++;
    for (struct rule *rule = rules; rule < rules + RULES_MAX; rule++) {
        if (rule->count == 0 || rule->kind != kind)
            continue;
        if (rule->after > 0) {
            rule->after--;
            continue;
        }
        rule->count--;
        error = rule->error ? rule->error : error;
        millis += rule->millis;
    }
    if (millis) {
        pthread_mutex_unlock(&lock);
        usleep((useconds_t)(millis * 1000));
        pthread_mutex_lock(&lock);
    }
    return error;
}

/* ---- the file system */

static struct stat stat_of(fuse_ino_t ino) {
    struct stat stat = {.st_ino = ino, .st_nlink = 1, .st_mode = S_IFREG | 0600, .st_uid = getuid(), .st_gid = getgid()};
    if (ino == FUSE_ROOT_ID) {
        stat.st_mode = S_IFDIR | 0700;
        stat.st_nlink = 2;
    } else if (ino == DISK) {
        stat.st_size = size;
        stat.st_blksize = UNIT;
        for (off_t at = 0; at < size; at += UNIT)
            stat.st_blocks += has_bytes[at / UNIT] ? UNIT / SECTOR : 0;
    }
    return stat;
}

static void on_lookup(fuse_req_t request, fuse_ino_t parent, const char *name) {
    struct fuse_entry_param entry = {.ino = strcmp(name, "disk") == 0 ? DISK : strcmp(name, "control") == 0 ? CONTROL : 0};
    if (parent != FUSE_ROOT_ID || entry.ino == 0) {
        fuse_reply_err(request, ENOENT);
        return;
    }
    pthread_mutex_lock(&lock);
    entry.attr = stat_of(entry.ino);
    pthread_mutex_unlock(&lock);
    fuse_reply_entry(request, &entry);
}

static void on_getattr(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file) {
    (void)file;
    pthread_mutex_lock(&lock);
    struct stat stat = stat_of(ino);
    pthread_mutex_unlock(&lock);
    fuse_reply_attr(request, &stat, 0);
}

/* Owners, modes and times are nobody's business; the size stays. */
static void on_setattr(fuse_req_t request, fuse_ino_t ino, struct stat *new, int set, struct fuse_file_info *file) {
    if (ino == DISK && (set & FUSE_SET_ATTR_SIZE) && new->st_size != size)
        fuse_reply_err(request, EPERM);
    else
        on_getattr(request, ino, file);
}

static void on_open(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file) {
    if (ino == FUSE_ROOT_ID) {
        fuse_reply_err(request, EISDIR);
        return;
    }
    pthread_mutex_lock(&lock);
    file->fh = cuts;
    pthread_mutex_unlock(&lock);
    file->direct_io = 1;
    fuse_reply_open(request, file);
}

/* Takes the lock for a request to the disk; says why it fails, else 0. */
static int enter(enum kind kind, const struct fuse_file_info *file) {
    pthread_mutex_lock(&lock);
    int error = fault(kind);
    return file->fh != cuts ? EIO : error;
}

static void read_control(fuse_req_t request, size_t len, off_t at) {
    char text[512];
    pthread_mutex_lock(&lock);
    int has = snprintf(text, sizeof text,
                       "pending %lu\npending_bytes %zu\nreads %lu\nwrites %lu\nsyncs %lu\ncuts %lu\nkept %lu\nlost %lu\n",
                       pending, pending_bytes, counts[READ], counts[WRITE], counts[SYNC], cuts, kept, lost);
    pthread_mutex_unlock(&lock);
    size_t rest = at < has ? (size_t)(has - at) : 0;
    fuse_reply_buf(request, text + (rest ? at : 0), rest < len ? rest : len);
}

static void on_read(fuse_req_t request, fuse_ino_t ino, size_t len, off_t at, struct fuse_file_info *file) {
    if (ino == CONTROL) {
        read_control(request, len, at);
        return;
    }
    size_t rest = at < size ? (size_t)(size - at) : 0;
    len = len < rest ? len : rest;
    char *bytes = malloc(len + 1);
    int error = enter(READ, file);
    if (error == 0 && bytes)
        memcpy(bytes, seen + (len ? at : 0), len);
    pthread_mutex_unlock(&lock);
    if (error || bytes == NULL)
        fuse_reply_err(request, error ? error : ENOMEM);
    else
        fuse_reply_buf(request, bytes, len);
    free(bytes);
}

static void write_control(fuse_req_t request, const char *bytes, size_t len) {
    char words[128] = {0};
    memcpy(words, bytes, len < sizeof words ? len : sizeof words - 1);
    pthread_mutex_lock(&lock);
    int error = obey(words);
    pthread_mutex_unlock(&lock);
    if (error)
        fuse_reply_err(request, error);
    else
        fuse_reply_write(request, len);
}

static int overlaps(const struct change *change, off_t at, size_t len) {
    return change->at < at + (off_t)len && at < change->at + (off_t)change->len;
}

/* What this write changed lasts; what is pending below it can no longer come to light. */
static void make_newest_last(off_t at, size_t len, const char *bytes) {
    for (struct change *change = oldest; change; change = change->next) {
        if (!overlaps(change, at, len))
            continue;
        if (change->is_hole) {
            sync_all();
            return;
        }
        off_t first = at > change->at ? at : change->at;
        off_t end = at + (off_t)len, change_end = change->at + (off_t)change->len;
        end = end < change_end ? end : change_end;
        memcpy(change->bytes + (first - change->at), bytes + (first - at), (size_t)(end - first));
    }
    memcpy(lasting + at, bytes, len);
}

static void on_write(fuse_req_t request, fuse_ino_t ino, const char *bytes, size_t len, off_t at,
                     struct fuse_file_info *file) {
    if (ino == CONTROL) {
        write_control(request, bytes, len);
        return;
    }
    int error = at + (off_t)len > size ? EFBIG : 0;
    int fault_met = enter(WRITE, file);
    error = fault_met ? fault_met : error;
    if (error == 0)
        error = change(at, len, bytes);
    if (error == 0 && (file->flags & O_DSYNC))
        make_newest_last(at, len, bytes);
    pthread_mutex_unlock(&lock);
    if (error)
        fuse_reply_err(request, error);
    else
        fuse_reply_write(request, len);
}

static void on_fsync(fuse_req_t request, fuse_ino_t ino, int datasync, struct fuse_file_info *file) {
    (void)datasync;
    int error = 0;
    if (ino == DISK) {
        error = enter(SYNC, file);
        if (error == 0)
            sync_all();
        pthread_mutex_unlock(&lock);
    }
    fuse_reply_err(request, error);
}

static void on_fallocate(fuse_req_t request, fuse_ino_t ino, int mode, off_t at, off_t len,
                         struct fuse_file_info *file) {
    int empties = mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE);
    if (ino != DISK || at >= size || (mode & ~(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE))) {
        fuse_reply_err(request, EOPNOTSUPP);
        return;
    }
    len = len < size - at ? len : size - at;
    int error = enter(WRITE, file);
    if (error == 0 && empties)
        error = change(at, (size_t)len, NULL);
    pthread_mutex_unlock(&lock);
    fuse_reply_err(request, error);
}

static void on_lseek(fuse_req_t request, fuse_ino_t ino, off_t at, int whence, struct fuse_file_info *file) {
    (void)file;
    if (ino != DISK || at >= size) {
        fuse_reply_err(request, ENXIO);
        return;
    }
    pthread_mutex_lock(&lock);
    off_t unit = at / UNIT, units = rounded_up(size) / UNIT;
    while (unit < units && has_bytes[unit] != (whence == SEEK_DATA))
        unit++;
    pthread_mutex_unlock(&lock);
    off_t found = unit * UNIT > at ? unit * UNIT : at;
    if (unit == units && whence == SEEK_DATA)
        fuse_reply_err(request, ENXIO);
    else
        fuse_reply_lseek(request, found < size ? found : size);
}

static void on_readdir(fuse_req_t request, fuse_ino_t ino, size_t len, off_t at, struct fuse_file_info *file) {
    static const char *const NAMES[] = {"disk", "control"};
    char entries[256];
    size_t used = 0;
    (void)ino, (void)file;
    for (off_t n = at; n < 2; n++) {
        struct stat stat = {.st_ino = (ino_t)(DISK + n), .st_mode = S_IFREG};
        size_t more = fuse_add_direntry(request, entries + used, sizeof entries - used, NAMES[n], &stat, n + 1);
        if (used + more > len)
            break;
        used += more;
    }
    fuse_reply_buf(request, entries, used);
}

static void on_init(void *ignored, struct fuse_conn_info *connection) {
    (void)ignored;
    connection->max_write = REQUEST_BYTES_MAX;
    connection->want |= connection->capable & FUSE_CAP_ASYNC_DIO;
}

static const struct fuse_lowlevel_ops OPS = {
    .init = on_init,       .lookup = on_lookup, .getattr = on_getattr, .setattr = on_setattr,     .open = on_open,
    .read = on_read,       .write = on_write,   .fsync = on_fsync,     .fallocate = on_fallocate, .lseek = on_lseek,
    .readdir = on_readdir,
};

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void open_backing(const char *path) {
    struct stat stat;
    backing = open(path, O_RDWR | O_CLOEXEC);
    if (backing < 0 || fstat(backing, &stat) != 0 || stat.st_size == 0)
        die(path);
    size = stat.st_size;
    lasting = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, backing, 0);
    seen = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, backing, 0);
    has_bytes = calloc((size_t)(rounded_up(size) / UNIT), 1);
    if (lasting == MAP_FAILED || seen == MAP_FAILED || has_bytes == NULL)
        die("mmap");
    mark_all();
}

int main(int count, char **words) {
    char *options[] = {words[0], "-o", "fsname=lossyfs,default_permissions"};
    struct fuse_args args = FUSE_ARGS_INIT(3, options);
    struct fuse_loop_config *loop = fuse_loop_cfg_create();
    if (count != 3)
        return 2;
    open_backing(words[1]);
    struct fuse_session *session = fuse_session_new(&args, &OPS, sizeof OPS, NULL);
    if (session == NULL || fuse_set_signal_handlers(session) != 0 || fuse_session_mount(session, words[2]) != 0)
        return 1;
    int result = fuse_session_loop_mt(session, loop);
    fuse_session_unmount(session);
    fuse_loop_cfg_destroy(loop);
    fuse_session_destroy(session);
    return result != 0;
}
