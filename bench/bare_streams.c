/* The yardstick of the rows of streams and datagrams: a bare loop of the agent's calls. It has no counters, samples,
 * numbers, times or protocol, so its rate is what the kernel permits with these calls.
 *
 *   bare_streams tcp-sink PORT STREAMS BUFFER
 *   bare_streams tcp-source ADDRESS PORT STREAMS BYTES SECONDS BUFFER
 *   bare_streams udp-sink PORT
 *   bare_streams udp-source ADDRESS PORT BYTES SECONDS
 *
 * BUFFER is the size of the socket's buffers in bytes, and 0 the kernel's choice.
 *
 * Both print their CPU time. A source also prints the seconds from its start until the sink has read everything. The
 * kernel's counters have the rest. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_STREAMS = 1024, BATCH = 64, HEADER_BYTES = 18, MAX_CALL_BYTES = 1 << 20 };
/* The agent's delays of a sink (agent/crates/traffic/src/receive.rs and udp_stream.rs): they are calls too. */
enum { DELAY_NS = 20000, SMALL_DELAY_NS = 100000, SMALL_CALL_NS = 50000 };
enum { MIN_DELAY_BYTES = 16 << 10, PAUSE_CALLS = 256 };

static volatile sig_atomic_t has_ended;
static size_t message_bytes;
static char *message;

static void end_load(int number) { (void)number; has_ended = 1; }

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static void delay_ns(long ns) {
    struct timespec delay = {0, ns};
    nanosleep(&delay, NULL);
}

static double cpu_s(void) {
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return used.tv_sec + used.tv_nsec / 1e9;
}

static int open_socket(int type, const char *address, int port, int is_source, int buffer_bytes) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, type, 0), on = 1;
    if (fd < 0 || inet_pton(AF_INET, address, &at.sin_addr) != 1)
        err(1, "socket for %s", address);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (buffer_bytes) {
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
    }
    if ((is_source ? connect : bind)(fd, (struct sockaddr *)&at, sizeof at) < 0)
        err(1, "%s port %d", address, port);
    return fd;
}

static void *send_stream(void *socket_of_stream) {
    int fd = *(int *)socket_of_stream;
    for (size_t offset = 0; !has_ended;) {
        ssize_t sent = send(fd, message + offset, message_bytes - offset, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            err(1, "send");
        offset = (offset + (sent > 0 ? sent : 0)) % message_bytes;
    }
    shutdown(fd, SHUT_WR);
    char byte; /* The sink closes its half when it has read everything. */
    while (recv(fd, &byte, 1, 0) < 0 && errno == EINTR)
        ;
    return NULL;
}

static void *receive_stream(void *socket_of_stream) {
    int fd = *(int *)socket_of_stream, undelayed_calls = 0;
    for (;;) {
        double started_s = undelayed_calls ? 0 : now_s();
        ssize_t count = recv(fd, NULL, MAX_CALL_BYTES, MSG_TRUNC);
        if (count == 0 || (count < 0 && errno != EINTR))
            break;
        if (undelayed_calls) {
            undelayed_calls--;
            continue;
        }
        int is_small = count < MIN_DELAY_BYTES;
        if (is_small && now_s() - started_s >= SMALL_CALL_NS / 1e9)
            continue;
        int buffer_bytes = 0;
        socklen_t length = sizeof buffer_bytes;
        getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, &length);
        if (count < MAX_CALL_BYTES && count * 8 <= buffer_bytes)
            delay_ns(is_small ? SMALL_DELAY_NS : DELAY_NS);
        else
            undelayed_calls = PAUSE_CALLS;
    }
    close(fd);
    return NULL;
}

static void run_streams(int fds[], int count, void *(*run)(void *)) {
    static pthread_t threads[MAX_STREAMS];
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, run, &fds[i]))
            errx(1, "cannot start a thread");
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

static void make_message(const char *bytes) {
    message_bytes = strtoul(bytes, NULL, 10);
    if (message_bytes < 1 || message_bytes > 64 << 20 || !(message = malloc(message_bytes)))
        errx(1, "cannot make a message of %s bytes", bytes);
    for (size_t i = 0; i < message_bytes; i++) /* A page that was never written stays in the cache. */
        message[i] = (i * 31) >> 3;
}

static void start_load(const char *seconds) {
    struct sigaction action = {.sa_handler = end_load}; /* Without SA_RESTART, it also ends a call that blocks. */
    sigaction(SIGALRM, &action, NULL);
    alarm(atoi(seconds));
}

static int parse_streams(const char *text) {
    int count = atoi(text);
    if (count < 1 || count > MAX_STREAMS)
        errx(1, "%s is not a number of streams", text);
    return count;
}

static void run_tcp_sink(char *arguments[]) {
    static int fds[MAX_STREAMS];
    int count = parse_streams(arguments[1]);
    int listener = open_socket(SOCK_STREAM, "0.0.0.0", atoi(arguments[0]), 0, atoi(arguments[2]));
    if (listen(listener, MAX_STREAMS) < 0)
        err(1, "listen");
    for (int i = 0; i < count; i++)
        if ((fds[i] = accept(listener, NULL, NULL)) < 0)
            err(1, "accept");
    run_streams(fds, count, receive_stream);
}

static void run_tcp_source(char *arguments[]) {
    static int fds[MAX_STREAMS];
    int count = parse_streams(arguments[2]);
    make_message(arguments[3]);
    for (int i = 0; i < count; i++)
        fds[i] = open_socket(SOCK_STREAM, arguments[0], atoi(arguments[1]), 1, atoi(arguments[5]));
    double started_s = now_s();
    start_load(arguments[4]);
    run_streams(fds, count, send_stream);
    printf("seconds=%.6f\n", now_s() - started_s);
}

static void prepare_batch(struct mmsghdr headers[], struct iovec parts[], char *bytes, size_t length, size_t stride) {
    for (int i = 0; i < BATCH; i++) {
        parts[i] = (struct iovec){bytes + i * stride, length};
        headers[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    }
}

static void run_udp_sink(char *arguments[]) {
    static char bytes[BATCH * HEADER_BYTES];
    static struct mmsghdr headers[BATCH];
    static struct iovec parts[BATCH];
    struct timeval quiet = {1, 0};
    int fd = open_socket(SOCK_DGRAM, "0.0.0.0", atoi(arguments[0]), 0, 0), has_received = 0, count;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &quiet, sizeof quiet);
    prepare_batch(headers, parts, bytes, HEADER_BYTES, HEADER_BYTES);
    while ((count = recvmmsg(fd, headers, BATCH, MSG_WAITFORONE | MSG_TRUNC, NULL)) >= 0 || !has_received) {
        has_received |= count > 0;
        if (count >= 2 && count < 32)
            delay_ns(DELAY_NS);
    }
}

static void run_udp_source(char *arguments[]) {
    static struct mmsghdr headers[BATCH];
    static struct iovec parts[BATCH];
    make_message(arguments[2]);
    char *bytes = malloc(BATCH * message_bytes);
    if (!bytes)
        err(1, "memory");
    for (int i = 0; i < BATCH; i++)
        memcpy(bytes + i * message_bytes, message, message_bytes);
    prepare_batch(headers, parts, bytes, message_bytes, message_bytes);
    int fd = open_socket(SOCK_DGRAM, arguments[0], atoi(arguments[1]), 1, 0);
    double started_s = now_s();
    start_load(arguments[3]);
    while (!has_ended)
        if (sendmmsg(fd, headers, BATCH, MSG_NOSIGNAL) < 0 && errno != EINTR && errno != ENOBUFS && errno != EAGAIN)
            err(1, "sendmmsg");
    printf("seconds=%.6f\n", now_s() - started_s);
}

int main(int count, char *arguments[]) {
    static const struct {
        const char *name;
        int arguments;
        void (*run)(char *[]);
    } roles[] = {
        {"tcp-sink", 3, run_tcp_sink},
        {"tcp-source", 6, run_tcp_source},
        {"udp-sink", 1, run_udp_sink},
        {"udp-source", 4, run_udp_source},
    };
    prctl(PR_SET_TIMERSLACK, 1); /* The agent's threads inherit it from that of the trial. */
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (count == roles[i].arguments + 2 && !strcmp(arguments[1], roles[i].name)) {
            double before_s = cpu_s(); /* The programs that started this one count in the same clock. */
            roles[i].run(arguments + 2);
            printf("cpu_s=%.6f\n", cpu_s() - before_s);
            return 0;
        }
    errx(2, "the first comment of the source has the arguments");
}
