// The 64-byte message of the benchmark, and the few socket helpers client and server share.
//
//   0        4        8                16       20       24               32            40             64
//   | magic  | kind   | sequence       | flow   | zero   | received       | behind      | fill (3 x 8) |
//
// All fields are little-endian. An echo server returns the 64 bytes untouched. A counting server counts MESSAGE_DATA,
// answers each MESSAGE_QUERY with MESSAGE_ANSWER (same sequence and flow) carrying what it has counted so far, and
// says nothing to the rest. On TCP the messages follow each other without any framing: each is exactly 64 bytes.
#ifndef BENCH_MESSAGE_H
#define BENCH_MESSAGE_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the benchmark's messages are written for little-endian machines"
#endif

enum { MESSAGE_SIZE = 64 };
enum { MESSAGE_MAGIC = 0x4d425853 }; // "SXBM"
enum { MESSAGE_REQUEST = 1, MESSAGE_DATA = 2, MESSAGE_QUERY = 3, MESSAGE_ANSWER = 4 };

struct message {
	uint32_t magic, kind;
	uint64_t sequence;
	uint32_t flow, zero;
	uint64_t received; // answer: MESSAGE_DATA seen so far
	uint64_t behind;   // answer: of those, the ones not above the highest sequence before them
	uint64_t fill[3];  // derived from the sequence, so that a byte changed on the way is noticed
};
_Static_assert(sizeof(struct message) == MESSAGE_SIZE, "a message is 64 bytes");

static inline void message_make(struct message *m, uint32_t kind, uint32_t flow, uint64_t sequence) {
	m->magic = MESSAGE_MAGIC;
	m->kind = kind;
	m->sequence = sequence;
	m->flow = flow;
	m->zero = 0;
	m->received = m->behind = 0;
	for (int i = 0; i < 3; i++)
		m->fill[i] = (sequence + flow + i + 1) * 0x9e3779b97f4a7c15ull;
}

// tally is the state of a counting server, one per connection (TCP) or per socket (UDP).
struct tally {
	uint64_t received, behind, highest;
};

// tally_take counts one message; it returns 1 when the message was a query and now holds the answer to send back.
static inline int tally_take(struct tally *t, struct message *m) {
	if (m->magic != MESSAGE_MAGIC)
		return 0;
	if (m->kind == MESSAGE_DATA) {
		t->received++;
		if (m->sequence > t->highest)
			t->highest = m->sequence;
		else
			t->behind++;
		return 0;
	}
	if (m->kind != MESSAGE_QUERY)
		return 0;
	m->kind = MESSAGE_ANSWER;
	m->received = t->received;
	m->behind = t->behind;
	return 1;
}

static inline uint64_t now_ns(void) {
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static inline void cpu_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static inline int would_block(int err) { return err == EAGAIN || err == EWOULDBLOCK || err == EINTR; }

// die prints what was being done, with errno's meaning when err is not zero, and ends the process.
static void __attribute__((noreturn, format(printf, 2, 3))) die(int err, const char *format, ...) {
	va_list args;
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	if (err)
		fprintf(stderr, ": %s", strerror(err));
	fputc('\n', stderr);
	exit(1);
}

// pin binds the process to one CPU; a negative number leaves it where it is.
static inline void pin(int cpu) {
	if (cpu < 0)
		return;
	cpu_set_t set;
	CPU_ZERO(&set);
	if (cpu >= CPU_SETSIZE)
		die(0, "-cpu %d is above the largest CPU number %d", cpu, CPU_SETSIZE - 1);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof set, &set) != 0)
		die(errno, "-cpu %d", cpu);
}

// raise_descriptors lifts the soft limit to the hard one: 4,096 connections do not fit into the usual 1,024.
static inline void raise_descriptors(void) {
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		die(errno, "getrlimit");
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
		die(errno, "setrlimit");
}

static inline void no_delay(int fd) {
	int one = 1;
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0)
		die(errno, "TCP_NODELAY");
}

// number parses a whole argument, or ends the process naming it.
static inline double number(const char *name, const char *text, double least, double most) {
	char *end;
	errno = 0;
	double v = strtod(text, &end);
	if (errno || end == text || *end || !(v >= least && v <= most))
		die(0, "-%s %s: want a number from %g to %g", name, text, least, most);
	return v;
}

#endif
