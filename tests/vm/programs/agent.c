/* Runs the host's commands in a guest. Each line that comes in is "NUMBER COMMAND"; each piece of what the command
 * says goes back as "o NUMBER LENGTH\n" and that many bytes, and its end as "e NUMBER STATUS\n". A line "k NUMBER"
 * ends a command by force. Commands run side by side. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { COMMANDS_MAX = 16, LINE_MAX_BYTES = 4096, PIECE_BYTES = 4096 };

struct command {
    long number;
    pid_t pid; /* 0: this place is free */
    int said;
};

static struct command commands[COMMANDS_MAX];
static int host;

static void tell(const char *bytes, size_t len) {
    while (len > 0) {
        ssize_t n = write(host, bytes, len);
        if (n < 0 && errno != EINTR)
            exit(1);
        if (n > 0) {
            bytes += n;
            len -= (size_t)n;
        }
    }
}

static void tell_piece(long number, const char *bytes, size_t len) {
    char head[64];
    tell(head, (size_t)snprintf(head, sizeof head, "o %ld %zu\n", number, len));
    tell(bytes, len);
}

static void tell_end(long number, int status) {
    char line[64];
    tell(line, (size_t)snprintf(line, sizeof line, "e %ld %d\n", number, status));
}

static void open_host(const char *path) {
    struct termios raw;
    host = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (host < 0 || tcgetattr(host, &raw) != 0)
        exit(1);
    cfmakeraw(&raw);
    cfsetspeed(&raw, B115200);
    if (tcsetattr(host, TCSANOW, &raw) != 0)
        exit(1);
}

static void become(const char *line, int out) {
    int none = open("/dev/null", O_RDONLY);
    setsid();
    dup2(none, 0);
    dup2(out, 1);
    dup2(out, 2);
    execl("/bin/sh", "sh", "-c", line, (char *)NULL);
    _exit(127);
}

static void start(long number, const char *line) {
    int ends[2];
    struct command *place = commands;
    while (place < commands + COMMANDS_MAX && place->pid != 0)
        place++;
    if (place == commands + COMMANDS_MAX || pipe2(ends, O_CLOEXEC) != 0) {
        tell_end(number, 126);
        return;
    }
    pid_t pid = fork();
    if (pid == 0)
        become(line, ends[1]);
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        tell_end(number, 126);
        return;
    }
    *place = (struct command){.number = number, .pid = pid, .said = ends[0]};
}

static void end_by_force(long number) {
    for (int n = 0; n < COMMANDS_MAX; n++)
        if (commands[n].pid != 0 && commands[n].number == number)
            kill(-commands[n].pid, SIGKILL);
}

static void obey(char *line) {
    char *rest;
    if (line[0] == 'k') {
        end_by_force(strtol(line + 1, NULL, 10));
        return;
    }
    long number = strtol(line, &rest, 10);
    if (rest != line && *rest == ' ')
        start(number, rest + 1);
}

static void hear_host(void) {
    static char line[LINE_MAX_BYTES];
    static size_t len;
    char bytes[256];
    ssize_t got = read(host, bytes, sizeof bytes);
    for (ssize_t n = 0; n < got; n++) {
        if (bytes[n] == '\n') {
            line[len] = 0;
            obey(line);
            len = 0;
        } else if (len < sizeof line - 1) {
            line[len++] = bytes[n];
        }
    }
}

static void hear_command(struct command *command) {
    char piece[PIECE_BYTES];
    int status;
    ssize_t got = read(command->said, piece, sizeof piece);
    if (got > 0) {
        tell_piece(command->number, piece, (size_t)got);
        return;
    }
    close(command->said);
    waitpid(command->pid, &status, 0);
    tell_end(command->number, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    command->pid = 0;
}

int main(int count, char **words) {
    if (count != 2)
        return 2;
    mlockall(MCL_CURRENT | MCL_FUTURE);
    open_host(words[1]);
    tell("ready\n", 6);
    for (;;) {
        struct pollfd heard[1 + COMMANDS_MAX] = {{.fd = host, .events = POLLIN}};
        for (int n = 0; n < COMMANDS_MAX; n++)
            heard[1 + n] = (struct pollfd){.fd = commands[n].pid ? commands[n].said : -1, .events = POLLIN};
        if (poll(heard, 1 + COMMANDS_MAX, -1) < 0)
            continue;
        if (heard[0].revents)
            hear_host();
        for (int n = 0; n < COMMANDS_MAX; n++)
            if (heard[1 + n].revents && commands[n].pid)
                hear_command(&commands[n]);
    }
}
