// The C peers of the benchmark: the fastest plain kernel loops, and their sleeping variants.
//
//   server -proto udp|tcp [-addr A] [-port P] [-loop recv|epoll] [-role echo|count] [-rest spin|wait] [-cpu C]
//
//   recv   UDP only: recvmsg and sendmsg on one socket, nothing else.
//   epoll  epoll_wait over the listener and all connections, or over the UDP socket.
//
// -rest spin polls without ever sleeping; wait blocks in recvmsg or epoll_wait. It prints "ready PORT", serves until
// SIGTERM and exits 0.
#define _GNU_SOURCE
#include "message.h"

#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { EVENTS = 512, CHUNK = 65536, DESCRIPTORS = 1 << 20 };

static int tcp, count, spin = 1, use_epoll = 1, cpu = -1;
static volatile sig_atomic_t stopping;

// conn is the state of one connection or of the UDP socket.
struct conn {
	struct tally tally;
	size_t have; // counting: bytes of a message whose rest is still to come
	unsigned char part[MESSAGE_SIZE];
};

static struct conn *conns[DESCRIPTORS]; // by descriptor
static unsigned char chunk[CHUNK];

static void stop(int signal) {
	(void)signal;
	stopping = 1;
}

// write_all sends everything. A full socket buffer means a client that does not read; waiting for it is right here,
// because every client of the benchmark reads.
static int write_all(int fd, const void *data, size_t size) {
	const unsigned char *p = data;
	while (size > 0) {
		ssize_t n = send(fd, p, size, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0) {
			if (!would_block(errno))
				return -1;
			struct pollfd writable = {.fd = fd, .events = POLLOUT};
			poll(&writable, 1, 100);
			if (stopping)
				return -1;
			continue;
		}
		p += n;
		size -= (size_t)n;
	}
	return 0;
}

// --- UDP --------------------------------------------------------------------------------------------------------------

// datagram receives one datagram and answers it; 0 when there was none.
static int datagram(int fd, struct conn *c, int flags) {
	struct sockaddr_in from;
	struct iovec part = {chunk, CHUNK};
	struct msghdr h = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &part, .msg_iovlen = 1};
	ssize_t n = recvmsg(fd, &h, flags);
	if (n < 0) {
		if (would_block(errno))
			return 0;
		die(errno, "recvmsg");
	}
	if (count && (n != MESSAGE_SIZE || !tally_take(&c->tally, (struct message *)(void *)chunk)))
		return 1;
	part.iov_len = (size_t)n;
	h.msg_flags = 0;
	while (sendmsg(fd, &h, flags) < 0) {
		if (!would_block(errno) && errno != ENOBUFS)
			die(errno, "sendmsg");
		if (stopping)
			return 1;
	}
	return 1;
}

static void udp_recv(int fd, struct conn *c) {
	int flags = spin ? MSG_DONTWAIT : 0;
	while (!stopping)
		datagram(fd, c, flags);
}

// --- TCP --------------------------------------------------------------------------------------------------------------

// count_stream walks the 64-byte messages in data, keeping an incomplete one for the next call.
static int count_stream(int fd, struct conn *c, unsigned char *data, size_t size) {
	while (size > 0) {
		struct message *m;
		if (c->have > 0 || size < MESSAGE_SIZE) {
			size_t take = MESSAGE_SIZE - c->have < size ? MESSAGE_SIZE - c->have : size;
			memcpy(c->part + c->have, data, take);
			c->have += take;
			data += take;
			size -= take;
			if (c->have < MESSAGE_SIZE)
				return 0;
			c->have = 0;
			m = (struct message *)(void *)c->part;
		} else {
			m = (struct message *)(void *)data;
			data += MESSAGE_SIZE;
			size -= MESSAGE_SIZE;
		}
		if (tally_take(&c->tally, m) && write_all(fd, m, MESSAGE_SIZE) != 0)
			return -1;
	}
	return 0;
}

static void drop(int fd) {
	free(conns[fd]);
	conns[fd] = NULL;
	close(fd);
}

static void readable(int fd) {
	struct conn *c = conns[fd];
	ssize_t n = recv(fd, chunk, CHUNK, MSG_DONTWAIT);
	if (n < 0 && would_block(errno))
		return;
	if (n <= 0 || (count ? count_stream(fd, c, chunk, (size_t)n) : write_all(fd, chunk, (size_t)n)) != 0)
		drop(fd);
}

static void watch(int ep, int fd) {
	struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
	if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e) != 0)
		die(errno, "epoll_ctl");
}

static void accept_all(int ep, int listener) {
	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0) {
			if (would_block(errno) || errno == ECONNABORTED)
				return;
			die(errno, "accept4");
		}
		if (fd >= DESCRIPTORS)
			die(0, "descriptor %d is above the table's %d", fd, DESCRIPTORS);
		no_delay(fd);
		conns[fd] = calloc(1, sizeof *conns[fd]);
		if (!conns[fd])
			die(ENOMEM, "connection");
		watch(ep, fd);
	}
}

static void epoll_loop(int fd) {
	static struct epoll_event events[EVENTS];
	int ep = epoll_create1(EPOLL_CLOEXEC);
	if (ep < 0)
		die(errno, "epoll_create1");
	watch(ep, fd);
	while (!stopping) {
		int n = epoll_wait(ep, events, EVENTS, spin ? 0 : -1);
		if (n < 0 && errno != EINTR)
			die(errno, "epoll_wait");
		for (int i = 0; i < n; i++) {
			if (events[i].data.fd != fd)
				readable(events[i].data.fd);
			else if (tcp)
				accept_all(ep, fd);
			else
				datagram(fd, conns[fd], MSG_DONTWAIT);
		}
	}
}

int main(int argc, char **argv) {
	static const struct option known[] = {{"proto", 1, 0, 'p'}, {"addr", 1, 0, 'a'}, {"port", 1, 0, 'P'},
		{"loop", 1, 0, 'l'}, {"role", 1, 0, 'r'}, {"rest", 1, 0, 'e'}, {"cpu", 1, 0, 'c'}, {0}};
	const char *addr = "127.0.0.1", *proto = "", *loop = "epoll", *role = "echo", *rest = "spin";
	int port = 0, c;
	while ((c = getopt_long_only(argc, argv, "", known, NULL)) != -1) {
		switch (c) {
		case 'p': proto = optarg; break;
		case 'a': addr = optarg; break;
		case 'P': port = (int)number("port", optarg, 0, 65535); break;
		case 'l': loop = optarg; break;
		case 'r': role = optarg; break;
		case 'e': rest = optarg; break;
		case 'c': cpu = (int)number("cpu", optarg, 0, CPU_SETSIZE - 1); break;
		default: exit(2);
		}
	}
	if (optind < argc)
		die(0, "unexpected argument %s", argv[optind]);
	tcp = strcmp(proto, "tcp") == 0;
	if (!tcp && strcmp(proto, "udp") != 0)
		die(0, "-proto %s: want tcp or udp", proto);
	use_epoll = strcmp(loop, "epoll") == 0;
	if (!use_epoll && strcmp(loop, "recv") != 0)
		die(0, "-loop %s: want recv or epoll", loop);
	if (!use_epoll && tcp)
		die(0, "-loop recv serves udp only");
	count = strcmp(role, "count") == 0;
	if (!count && strcmp(role, "echo") != 0)
		die(0, "-role %s: want echo or count", role);
	spin = strcmp(rest, "spin") == 0;
	if (!spin && strcmp(rest, "wait") != 0)
		die(0, "-rest %s: want spin or wait", rest);
	struct sockaddr_in local = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	if (inet_pton(AF_INET, addr, &local.sin_addr) != 1)
		die(0, "-addr %s: want an IPv4 address", addr);

	pin(cpu);
	raise_descriptors();
	struct sigaction term = {.sa_handler = stop}; // no SA_RESTART: a blocked call must return
	sigaction(SIGTERM, &term, NULL);

	int fd = socket(AF_INET, (tcp ? SOCK_STREAM | SOCK_NONBLOCK : SOCK_DGRAM) | SOCK_CLOEXEC, 0), one = 1;
	if (fd < 0)
		die(errno, "socket");
	if (tcp && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0)
		die(errno, "SO_REUSEADDR");
	if (bind(fd, (struct sockaddr *)&local, sizeof local) != 0)
		die(errno, "bind to %s:%d", addr, port);
	if (tcp && listen(fd, 4096) != 0)
		die(errno, "listen");
	socklen_t size = sizeof local;
	if (getsockname(fd, (struct sockaddr *)&local, &size) != 0)
		die(errno, "getsockname");
	conns[fd] = calloc(1, sizeof *conns[fd]);
	if (!conns[fd])
		die(ENOMEM, "socket state");
	printf("ready %d\n", ntohs(local.sin_port));
	fflush(stdout);

	if (use_epoll)
		epoll_loop(fd);
	else
		udp_recv(fd, conns[fd]);
	return 0;
}
