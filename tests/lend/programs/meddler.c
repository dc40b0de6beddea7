/* meddler ADDRESS PORT TO_ADDRESS TO_PORT: a TCP proxy that does what it is told on its standard input, a line each:
 *
 *   delay MICROS     holds what the target answers for so long, on connections that carry pages
 *   alter BYTES      changes one bit in about so many bytes that such a connection answers; 0 for none
 *   truncate BYTES   ends such a connection after so many bytes of answers; 0 for never
 *   hang             passes nothing of such connections any more, and keeps them
 *   record FOLDER    keeps what clients send on such connections, up to 64 KiB each, in FOLDER/NUMBER
 *   pass             passes all as it is; what is kept is passed on
 *   report           says "held CHUNKS MICROS_TOO_LONG ALTERED": chunks that were delayed, and how much longer than
 *                    asked one was held in the mean, by its own clock
 *
 * A connection carries pages if its client begins with "SBLD". All others pass untouched. It says "ready" first. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 512, CHUNK = 64 << 10, CHUNKS_MAX = 64, RECORDED_MAX = 64 << 10 };

struct chunk {
    struct chunk *next;
    uint64_t came, due;
    size_t from, bytes;
    char data[];
};

/* One way through a connection: what came and is not sent yet. */
struct way {
    struct chunk *first, **last;
    int chunks, has_ended;
};

struct pair {
    int client, target, number, carries_pages, is_known;
    uint64_t answered, recorded;
    struct way forth, back;
};

static struct pair pairs[CONNECTIONS_MAX];
static uint64_t delay_nanos, alter_bytes, truncate_bytes, until_altered;
static uint64_t held, held_too_long, altered, numbers;
static int is_hanging;
static char folder[200];

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static struct addrinfo *found(const char *address, const char *port) {
    struct addrinfo *at, hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    if (getaddrinfo(address, port, &hints, &at))
        fail(address);
    return at;
}

static void prepare(int fd) {
    int yes = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    fcntl(fd, F_SETFL, O_NONBLOCK);
}

static int listening(const char *address, const char *port) {
    struct addrinfo *at = found(address, port);
    int yes = 1, fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, at->ai_addr, at->ai_addrlen) || listen(fd, 128))
        fail("listen");
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static void close_pair(struct pair *pair) {
    close(pair->client);
    close(pair->target);
    for (struct way *way = &pair->forth; way; way = way == &pair->forth ? &pair->back : NULL)
        for (struct chunk *chunk = way->first, *next; chunk; chunk = next) {
            next = chunk->next;
            free(chunk);
        }
    pair->client = -1;
}

static void open_pair(int listener, const struct addrinfo *to) {
    int client = accept(listener, NULL, NULL);
    if (client < 0)
        return;
    for (struct pair *pair = pairs; pair < pairs + CONNECTIONS_MAX; pair++) {
        if (pair->client >= 0)
            continue;
        int target = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        prepare(target);
        if (connect(target, to->ai_addr, to->ai_addrlen) && errno != EINPROGRESS) {
            close(target);
            break;
        }
        prepare(client);
        *pair = (struct pair){.client = client, .target = target, .number = ++numbers};
        pair->forth.last = &pair->forth.first;
        pair->back.last = &pair->back.first;
        return;
    }
    close(client);
}

static void record(struct pair *pair, const struct chunk *chunk) {
    char path[256];
    if (!folder[0] || pair->recorded >= RECORDED_MAX)
        return;
    snprintf(path, sizeof path, "%s/%d", folder, pair->number);
    FILE *file = fopen(path, "ab");
    if (!file || fwrite(chunk->data, 1, chunk->bytes, file) != chunk->bytes || fclose(file))
        fail(path);
    pair->recorded += chunk->bytes;
}

static void alter(struct chunk *chunk) {
    if (!alter_bytes)
        return;
    size_t at = 0;
    while (chunk->bytes - at > until_altered) {
        at += until_altered;
        chunk->data[at] ^= 1 << (altered++ % 8);
        until_altered = alter_bytes / 2 + random() % alter_bytes + 1;
    }
    until_altered -= chunk->bytes - at;
}

/* Takes what came on one side. Returns whether the connection goes on. */
static int receive(struct pair *pair, struct way *way, int fd) {
    struct chunk *chunk = malloc(sizeof *chunk + CHUNK);
    ssize_t bytes = recv(fd, chunk->data, CHUNK, 0);
    if (bytes <= 0) {
        free(chunk);
        way->has_ended = bytes == 0 || (errno != EAGAIN && errno != EINTR);
        return !way->has_ended || way->first;
    }
    int is_answer = way == &pair->back;
    uint64_t came = now();
    *chunk = (struct chunk){.came = came, .due = came, .bytes = bytes};
    if (!is_answer && !pair->is_known) {
        pair->is_known = 1;
        pair->carries_pages = bytes >= 4 && !memcmp(chunk->data, "SBLD", 4);
    }
    if (pair->carries_pages && !is_answer)
        record(pair, chunk);
    if (pair->carries_pages && is_answer) {
        chunk->due += delay_nanos;
        alter(chunk);
        pair->answered += bytes;
    }
    *way->last = chunk;
    way->last = &chunk->next;
    way->chunks++;
    return !(truncate_bytes && pair->carries_pages && pair->answered > truncate_bytes);
}

/* Sends what is due. Returns whether the connection goes on. */
static int deliver(struct pair *pair, struct way *way, int fd) {
    for (struct chunk *chunk; (chunk = way->first) && chunk->due <= now();) {
        ssize_t bytes = send(fd, chunk->data + chunk->from, chunk->bytes - chunk->from, MSG_NOSIGNAL);
        if (bytes < 0)
            return errno == EAGAIN || errno == EINTR;
        chunk->from += bytes;
        if (chunk->from < chunk->bytes)
            return 1;
        if (chunk->due > chunk->came) {
            held++;
            held_too_long += now() - chunk->due;
        }
        way->first = chunk->next;
        way->last = way->first ? way->last : &way->first;
        way->chunks--;
        free(chunk);
    }
    (void)pair;
    return !(way->has_ended && !way->first);
}

static void obey(char *line) {
    char word[16] = "", rest[200] = "";
    sscanf(line, "%15s %199s", word, rest);
    uint64_t number = strtoull(rest, NULL, 10);
    if (!strcmp(word, "delay"))
        delay_nanos = number * 1000;
    else if (!strcmp(word, "alter"))
        alter_bytes = number, until_altered = number;
    else if (!strcmp(word, "truncate"))
        truncate_bytes = number;
    else if (!strcmp(word, "hang"))
        is_hanging = 1;
    else if (!strcmp(word, "record"))
        strcpy(folder, rest);
    else if (!strcmp(word, "pass"))
        is_hanging = 0, delay_nanos = alter_bytes = truncate_bytes = 0, folder[0] = 0;
    else if (!strcmp(word, "report")) {
        printf("held %lu %.1f %lu\n", held, held ? held_too_long / 1e3 / held : 0.0, altered);
        return;
    }
    puts("done");
}

/* Obeys whole lines of the standard input, and ends with it. */
static void listen_to_orders(void) {
    static char text[1024];
    static size_t filled;
    ssize_t bytes = read(0, text + filled, sizeof text - filled - 1);
    if (bytes <= 0)
        exit(0);
    filled += bytes;
    text[filled] = 0;
    for (char *end; (end = strchr(text, '\n'));) {
        *end = 0;
        obey(text);
        filled -= end + 1 - text;
        memmove(text, end + 1, filled + 1);
    }
}

static int waits_to_send(const struct way *way, uint64_t at) {
    return way->first && way->first->due <= at;
}

int main(int count, char **words) {
    if (count != 5)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    prctl(PR_SET_TIMERSLACK, 1);
    prctl(PR_SET_PDEATHSIG, 9);
    for (int n = 0; n < CONNECTIONS_MAX; n++)
        pairs[n].client = -1;
    int listener = listening(words[1], words[2]);
    struct addrinfo *to = found(words[3], words[4]);
    puts("ready");
    for (;;) {
        static struct pollfd polled[2 + 2 * CONNECTIONS_MAX];
        static struct pair *of[2 + 2 * CONNECTIONS_MAX];
        int fds = 0;
        uint64_t at = now(), next = UINT64_MAX;
        polled[fds++] = (struct pollfd){.fd = 0, .events = POLLIN};
        polled[fds++] = (struct pollfd){.fd = listener, .events = POLLIN};
        for (struct pair *pair = pairs; pair < pairs + CONNECTIONS_MAX; pair++) {
            if (pair->client < 0 || (is_hanging && pair->carries_pages))
                continue;
            struct way *ways[] = {&pair->forth, &pair->back};
            int events[2];
            for (int n = 0; n < 2; n++) {
                struct way *in = ways[n], *out = ways[!n];
                events[n] = in->chunks < CHUNKS_MAX && !in->has_ended ? POLLIN : 0;
                events[n] |= waits_to_send(out, at) ? POLLOUT : 0;
                if (in->first && in->first->due > at && in->first->due < next)
                    next = in->first->due;
            }
            of[fds] = pair;
            polled[fds++] = (struct pollfd){.fd = pair->client, .events = events[0]};
            of[fds] = pair;
            polled[fds++] = (struct pollfd){.fd = pair->target, .events = events[1]};
        }
        uint64_t wait = next == UINT64_MAX ? 1000000000 : next - at;
        struct timespec timeout = {.tv_sec = wait / 1000000000, .tv_nsec = wait % 1000000000};
        ppoll(polled, fds, &timeout, NULL);
        for (int n = 2; n < fds; n += 2) {
            struct pair *pair = of[n];
            int goes_on = 1;
            if (polled[n].revents & (POLLIN | POLLHUP | POLLERR))
                goes_on &= receive(pair, &pair->forth, pair->client);
            if (polled[n + 1].revents & (POLLIN | POLLHUP | POLLERR))
                goes_on &= receive(pair, &pair->back, pair->target);
            goes_on = goes_on && deliver(pair, &pair->forth, pair->target) && deliver(pair, &pair->back, pair->client);
            if (!goes_on)
                close_pair(pair);
        }
        if (polled[1].revents)
            open_pair(listener, to);
        if (polled[0].revents)
            listen_to_orders();
    }
}
