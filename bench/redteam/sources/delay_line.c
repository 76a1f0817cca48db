/* Carries frames between two interfaces and delays them, as a long link or a userspace tunnel does.
 *
 * delay_line FIRST SECOND DELAY_US LATE_SHARE
 *
 * A share of the frames (1: all) waits DELAY_US microseconds; the others pass at once, so a share below 1 also
 * reorders. Frames cross with their offload header (PACKET_VNET_HDR), so large segments stay whole.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define FRAME_BYTES (1 << 17)
#define QUEUE_FRAMES 16384
#define BUFFER_BYTES (64 << 20)

struct frame {
	int64_t due_ns;
	size_t length;
	unsigned char *bytes;
};

struct queue {
	struct frame frames[QUEUE_FRAMES];
	unsigned head, tail;
};

struct direction {
	const char *source, *sink;
	int64_t delay_ns;
	double late_share;
	struct queue prompt, late;
	int reader, writer;
};

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void stop(const char *what)
{
	perror(what);
	exit(1);
}

static int open_packet_socket(const char *name, int protocol)
{
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(protocol),
		.sll_ifindex = if_nametoindex(name),
	};
	int one = 1, size = BUFFER_BYTES;
	int socket_fd = socket(AF_PACKET, SOCK_RAW, 0);

	if (socket_fd < 0 || !address.sll_ifindex)
		stop(name);
	if (setsockopt(socket_fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one)))
		stop("PACKET_VNET_HDR");
	setsockopt(socket_fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one));
	setsockopt(socket_fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	setsockopt(socket_fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
	if (bind(socket_fd, (struct sockaddr *)&address, sizeof(address)))
		stop("bind");
	return socket_fd;
}

static void put(struct queue *queue, const unsigned char *bytes, size_t length, int64_t due_ns)
{
	struct frame *frame = &queue->frames[queue->tail % QUEUE_FRAMES];

	if (queue->tail - queue->head == QUEUE_FRAMES)
		return;
	frame->bytes = malloc(length);
	if (!frame->bytes)
		stop("malloc");
	memcpy(frame->bytes, bytes, length);
	frame->length = length;
	frame->due_ns = due_ns;
	queue->tail++;
}

static void send_due(struct queue *queue, int writer)
{
	while (queue->head != queue->tail) {
		struct frame *frame = &queue->frames[queue->head % QUEUE_FRAMES];

		if (frame->due_ns > now_ns())
			return;
		if (send(writer, frame->bytes, frame->length, 0) < 0 && errno != EMSGSIZE && errno != ENOBUFS &&
		    errno != ENETDOWN && errno != EINVAL)
			stop("send");
		free(frame->bytes);
		queue->head++;
	}
}

static void *carry(void *argument)
{
	struct direction *direction = argument;
	unsigned char *buffer = malloc(FRAME_BYTES);
	unsigned int seed = (unsigned int)now_ns();

	for (;;) {
		struct pollfd poller = { .fd = direction->reader, .events = POLLIN };
		struct timespec wait = { 0, 0 };
		int64_t left = 1000000000;

		if (direction->late.head != direction->late.tail)
			left = direction->late.frames[direction->late.head % QUEUE_FRAMES].due_ns - now_ns();
		if (left > 0) {
			wait.tv_sec = left / 1000000000;
			wait.tv_nsec = left % 1000000000;
		}
		ppoll(&poller, 1, &wait, NULL);
		for (int count = 0; count < 64; count++) {
			ssize_t length = recv(direction->reader, buffer, FRAME_BYTES, MSG_DONTWAIT);
			int is_late;

			if (length <= 0)
				break;
			is_late = rand_r(&seed) < direction->late_share * ((double)RAND_MAX + 1);
			if (is_late)
				put(&direction->late, buffer, length, now_ns() + direction->delay_ns);
			else
				put(&direction->prompt, buffer, length, 0);
		}
		send_due(&direction->prompt, direction->writer);
		send_due(&direction->late, direction->writer);
	}
	return NULL;
}

int main(int count, char **words)
{
	struct direction *directions = calloc(2, sizeof(*directions));
	pthread_t thread;

	if (count != 5) {
		fprintf(stderr, "usage: delay_line FIRST SECOND DELAY_US LATE_SHARE\n");
		return 2;
	}
	for (int number = 0; number < 2; number++) {
		directions[number].source = words[1 + number];
		directions[number].sink = words[2 - number];
		directions[number].delay_ns = atof(words[3]) * 1000;
		directions[number].late_share = atof(words[4]);
		directions[number].reader = open_packet_socket(words[1 + number], ETH_P_ALL);
		directions[number].writer = open_packet_socket(words[2 - number], 0);
	}
	if (pthread_create(&thread, NULL, carry, &directions[0]))
		stop("pthread_create");
	carry(&directions[1]);
	return 0;
}
