// A TCP echo server on io_uring by hand, the twin of what the uring ring does: multishot accept and receive, a ring of provided buffers, deferred
// task work, answers by send(2) at once. No library, nothing counted, no limits.
//
//   uring [-addr A] [-port P] [-rest spin|wait]
//
// -rest spin looks at the completion queue and enters the kernel when that says it has work; wait sleeps in io_uring_enter. It prints "ready PORT",
// or "refused" and why where the kernel has no such io_uring, serves until SIGTERM and exits 0.
#define _GNU_SOURCE
#include "message.h"

#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if __has_include(<linux/io_uring.h>)
#include <linux/io_uring.h>
#endif

#ifndef IORING_SETUP_DEFER_TASKRUN // headers older than Linux 6.1
int main(void) {
	printf("refused: made with kernel headers that have no such io_uring\n");
	return 0;
}
#else

enum { ENTRIES = 4096, COMPLETIONS = 16384, BUFFERS = 1024, BUFFER_SIZE = 2048 };

static int spin = 1;
static volatile sig_atomic_t stopping;

// uring is the instance. Heads and tails are shared with the kernel.
static struct {
	int fd;
	unsigned *sq_tail, *sq_flags, sq_mask, unsubmitted;
	struct io_uring_sqe *sqes;
	unsigned *cq_head, *cq_tail, cq_mask;
	struct io_uring_cqe *cqes;
	struct io_uring_buf_ring *buffers;
	unsigned char *memory;
} u;

static void stop(int signal) {
	(void)signal;
	stopping = 1;
}

static void refused(const char *what) {
	printf("refused %s: %s\n", what, strerror(errno));
	exit(0);
}

static void *map(size_t size, off_t offset) {
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, u.fd, offset);
	if (p == MAP_FAILED)
		die(errno, "mmap of io_uring");
	return p;
}

static void enter(unsigned least) {
	long n = syscall(__NR_io_uring_enter, u.fd, u.unsubmitted, least, IORING_ENTER_GETEVENTS, NULL, 0);
	if (n >= 0)
		u.unsubmitted -= (unsigned)n;
	else if (errno != EINTR && errno != EAGAIN && errno != EBUSY)
		die(errno, "io_uring_enter");
}

// prepare is the next submission, cleared.
static struct io_uring_sqe *prepare(int op, int fd) {
	while (u.unsubmitted == ENTRIES)
		enter(0);
	unsigned tail = *u.sq_tail;
	struct io_uring_sqe *s = &u.sqes[tail & u.sq_mask];
	memset(s, 0, sizeof *s);
	s->opcode = (unsigned char)op;
	s->fd = fd;
	s->user_data = (unsigned long long)fd;
	__atomic_store_n(u.sq_tail, tail + 1, __ATOMIC_RELEASE); // the kernel reads it in enter, when the entry is complete
	u.unsubmitted++;
	return s;
}

static void arm_accept(int listener) {
	struct io_uring_sqe *s = prepare(IORING_OP_ACCEPT, listener);
	s->ioprio = IORING_ACCEPT_MULTISHOT;
	s->accept_flags = SOCK_NONBLOCK | SOCK_CLOEXEC;
}

static void arm_receive(int fd) {
	struct io_uring_sqe *s = prepare(IORING_OP_RECV, fd);
	s->ioprio = IORING_RECV_MULTISHOT;
	s->flags = IOSQE_BUFFER_SELECT;
	s->buf_group = 0;
}

// offer gives the kernel a buffer; it sees it with the next publish.
static unsigned short offered;
static void offer(unsigned short id) {
	struct io_uring_buf *b = &u.buffers->bufs[offered++ & (BUFFERS - 1)];
	b->addr = (unsigned long long)(uintptr_t)(u.memory + (size_t)id * BUFFER_SIZE);
	b->len = BUFFER_SIZE;
	b->bid = id;
}

static void publish(void) { __atomic_store_n(&u.buffers->tail, offered, __ATOMIC_RELEASE); }

static void open_ring(void) {
	struct io_uring_params p = {.cq_entries = COMPLETIONS, .flags = IORING_SETUP_CQSIZE | IORING_SETUP_SINGLE_ISSUER |
		IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG};
	u.fd = (int)syscall(__NR_io_uring_setup, ENTRIES, &p);
	if (u.fd < 0)
		refused("io_uring_setup");
	size_t sq = p.sq_off.array + p.sq_entries * sizeof(unsigned), cq = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
	unsigned char *rings = map(sq > cq ? sq : cq, IORING_OFF_SQ_RING);
	u.sqes = map(p.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
	u.sq_tail = (unsigned *)(void *)(rings + p.sq_off.tail);
	u.sq_flags = (unsigned *)(void *)(rings + p.sq_off.flags);
	u.sq_mask = p.sq_entries - 1;
	u.cq_head = (unsigned *)(void *)(rings + p.cq_off.head);
	u.cq_tail = (unsigned *)(void *)(rings + p.cq_off.tail);
	u.cq_mask = p.cq_entries - 1;
	u.cqes = (struct io_uring_cqe *)(void *)(rings + p.cq_off.cqes);
	unsigned *array = (unsigned *)(void *)(rings + p.sq_off.array);
	for (unsigned i = 0; i < p.sq_entries; i++)
		array[i] = i;

	u.buffers = mmap(NULL, BUFFERS * sizeof(struct io_uring_buf), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	u.memory = mmap(NULL, (size_t)BUFFERS * BUFFER_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (u.buffers == MAP_FAILED || u.memory == MAP_FAILED)
		die(errno, "mmap");
	struct io_uring_buf_reg r = {.ring_addr = (unsigned long long)(uintptr_t)u.buffers, .ring_entries = BUFFERS};
	if (syscall(__NR_io_uring_register, u.fd, IORING_REGISTER_PBUF_RING, &r, 1) != 0)
		refused("provided buffers");
	for (unsigned short i = 0; i < BUFFERS; i++)
		offer(i);
	publish();
}

// write_all sends everything: every client of the benchmark reads.
static int write_all(int fd, const unsigned char *p, size_t size) {
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

static void completed(int listener, struct io_uring_cqe *c) {
	int fd = (int)c->user_data, more = (c->flags & IORING_CQE_F_MORE) != 0;
	if (fd == listener) {
		if (c->res >= 0) {
			no_delay(c->res);
			arm_receive(c->res);
		} else if (c->res != -ECONNABORTED && c->res != -EAGAIN) {
			die(-c->res, "accept");
		}
		if (!more)
			arm_accept(listener);
		return;
	}
	if (c->res > 0) {
		unsigned short id = (unsigned short)(c->flags >> IORING_CQE_BUFFER_SHIFT);
		int failed = write_all(fd, u.memory + (size_t)id * BUFFER_SIZE, (size_t)c->res);
		offer(id);
		if (failed)
			shutdown(fd, SHUT_RDWR); // the receive ends with it
		if (!more)
			arm_receive(fd);
	} else if (c->res == -ENOBUFS) {
		arm_receive(fd);
	} else if (!more) {
		close(fd);
	}
}

static void serve(int listener) {
	arm_accept(listener);
	while (!stopping) {
		unsigned head = *u.cq_head, tail = __atomic_load_n(u.cq_tail, __ATOMIC_ACQUIRE);
		if (head == tail) {
			if (!spin)
				enter(1);
			else if (u.unsubmitted > 0 || __atomic_load_n(u.sq_flags, __ATOMIC_RELAXED) & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW))
				enter(0);
			continue;
		}
		for (; head != tail; head++)
			completed(listener, &u.cqes[head & u.cq_mask]);
		__atomic_store_n(u.cq_head, head, __ATOMIC_RELEASE);
		publish();
	}
}

int main(int argc, char **argv) {
	static const struct option known[] = {{"addr", 1, 0, 'a'}, {"port", 1, 0, 'P'}, {"rest", 1, 0, 'e'}, {0}};
	const char *addr = "127.0.0.1", *rest = "spin";
	int port = 0, c;
	while ((c = getopt_long_only(argc, argv, "", known, NULL)) != -1) {
		switch (c) {
		case 'a': addr = optarg; break;
		case 'P': port = (int)number("port", optarg, 0, 65535); break;
		case 'e': rest = optarg; break;
		default: exit(2);
		}
	}
	if (optind < argc)
		die(0, "unexpected argument %s", argv[optind]);
	spin = strcmp(rest, "spin") == 0;
	if (!spin && strcmp(rest, "wait") != 0)
		die(0, "-rest %s: want spin or wait", rest);
	struct sockaddr_in local = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	if (inet_pton(AF_INET, addr, &local.sin_addr) != 1)
		die(0, "-addr %s: want an IPv4 address", addr);
	raise_descriptors();
	struct sigaction term = {.sa_handler = stop}; // no SA_RESTART: a blocked call must return
	sigaction(SIGTERM, &term, NULL);
	open_ring();
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;
	if (fd < 0)
		die(errno, "socket");
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0)
		die(errno, "SO_REUSEADDR");
	if (bind(fd, (struct sockaddr *)&local, sizeof local) != 0)
		die(errno, "bind to %s:%d", addr, port);
	if (listen(fd, 4096) != 0)
		die(errno, "listen");
	socklen_t size = sizeof local;
	if (getsockname(fd, (struct sockaddr *)&local, &size) != 0)
		die(errno, "getsockname");
	printf("ready %d\n", ntohs(local.sin_port));
	fflush(stdout);
	serve(fd);
	return 0;
}

#endif
