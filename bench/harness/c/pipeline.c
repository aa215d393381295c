// The load generator for messages of any size, many at a time: one process, one thread, spinning. TCP only. It prints one line of JSON,
// as client.c does, and ends by itself.
//
//   pipeline -app echo|resp -port P [-addr A] [-conns N] [-size B] [-depth D] [-seconds S] [-warmup S] [-server-pid PID]
//            [-server-cpu C] [-cpu C]
//
// Closed loop: every connection sends D requests with one system call and sends the next D when all of them are answered. One connection
// is read in a plain spin, more behind an epoll_wait(0) spin. The latency of a request is the time from the sending of its batch to
// the moment its whole answer is there.
//
//   echo  a request is B bytes, its answer the same ones
//   resp  requests are in turn SET key value, with B bytes of value, and GET key, of a key of the connection's own
//
// Every byte of every answer is compared with what it must be. The bytes of a request depend on its connection and its number, so
// that an answer that is lost, doubled, late or somebody else's differs; the run then ends with an error, because in a stream nothing
// after it would be in its place.
#define _GNU_SOURCE
#include "meter.h"

#include <getopt.h>
#include <sys/epoll.h>

enum { SILENCE_SECONDS = 5, EVENTS = 512, DEPTH_MAX = 256, SIZE_MAX_BYTES = 65536 };
enum { OVERHEAD = 128 }; // bytes of a command around its value, at most

static struct options {
	int resp, conns, cpu, server_pid, server_cpu, depth, size;
	struct sockaddr_in addr;
	double seconds, warmup;
} opt = {.conns = 1, .cpu = -1, .server_cpu = -1, .depth = 1, .size = 64, .seconds = 1, .warmup = 0.1};

struct stream {
	int fd;
	uint32_t id;
	uint64_t sequence; // of the last request
	uint64_t sent_at;
	size_t have;   // bytes of the answers that have arrived
	int waiting;   // the batch is not answered
	int answered;  // of its requests
};

static struct meter meter = {.next = UINT64_MAX}; // no phase begins before meter_start
static struct stream *streams;

// The batch that is being sent, or the answers that must come: made anew whenever they are needed, which is cheaper than fetching
// those of a thousand connections from memory.
static char *out, *want, *in;
static size_t ends[DEPTH_MAX]; // where each answer in want ends

// --- Requests and answers ---------------------------------------------------------------------------------------------

// payload fills size bytes that depend on the connection and the number of the request.
static char *payload(char *p, uint32_t id, uint64_t sequence) {
	uint64_t word = (sequence + ((uint64_t)id << 40)) * 0x9e3779b97f4a7c15ull;
	int n = opt.size;
	for (; n >= 8; n -= 8, p += 8, word += 0x2545f4914f6cdd1dull)
		memcpy(p, &word, 8);
	memcpy(p, &word, (size_t)n);
	return p + n;
}

static char *request(char *p, uint32_t id, uint64_t sequence) {
	if (!opt.resp)
		return payload(p, id, sequence);
	if (sequence % 2 == 0)
		return p + sprintf(p, "*2\r\n$3\r\nGET\r\n$14\r\nkey:%010u\r\n", id);
	p += sprintf(p, "*3\r\n$3\r\nSET\r\n$14\r\nkey:%010u\r\n$%d\r\n", id, opt.size);
	p = payload(p, id, sequence);
	memcpy(p, "\r\n", 2);
	return p + 2;
}

static char *answer(char *p, uint32_t id, uint64_t sequence) {
	if (!opt.resp)
		return payload(p, id, sequence);
	if (sequence % 2 == 1) {
		memcpy(p, "+OK\r\n", 5);
		return p + 5;
	}
	p += sprintf(p, "$%d\r\n", opt.size);
	p = payload(p, id, sequence - 1); // what the SET before it put there
	memcpy(p, "\r\n", 2);
	return p + 2;
}

// expect makes the answers to the batch under way; it returns their length.
static size_t expect(const struct stream *s) {
	char *p = want;
	for (int i = 0; i < opt.depth; i++) {
		p = answer(p, s->id, s->sequence - (uint64_t)(opt.depth - 1 - i));
		ends[i] = (size_t)(p - want);
	}
	return ends[opt.depth - 1];
}

// --- One connection ---------------------------------------------------------------------------------------------------

static void stream_open(struct stream *s, uint32_t id) {
	s->id = id;
	s->fd = socket(AF_INET, SOCK_STREAM, 0);
	if (s->fd < 0)
		die(errno, "socket %u", id);
	if (connect(s->fd, (struct sockaddr *)&opt.addr, sizeof opt.addr) != 0)
		die(errno, "connect %u to port %d", id, ntohs(opt.addr.sin_port));
	no_delay(s->fd);
}

static void stream_request(struct stream *s, uint64_t now) {
	char *p = out;
	for (int i = 0; i < opt.depth; i++)
		p = request(p, s->id, ++s->sequence);
	s->sent_at = now;
	s->waiting = 1;
	s->have = 0;
	s->answered = 0;
	meter.sent += (uint64_t)opt.depth;
	for (char *from = out; from < p;) {
		ssize_t n = send(s->fd, from, (size_t)(p - from), MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n >= 0)
			from += n;
		else if (!would_block(errno))
			die(errno, "send on connection %u", s->id);
		else
			meter_tick(&meter);
	}
}

// stream_read takes what has arrived and counts the requests whose answers are complete. It returns 1 when all are.
static int stream_read(struct stream *s) {
	size_t all = 0;
	for (;;) {
		// Room for more than there may be: an answer too many is seen at once.
		ssize_t n = recv(s->fd, in, (size_t)opt.depth * ((size_t)opt.size + OVERHEAD), MSG_DONTWAIT);
		if (n < 0 && would_block(errno))
			return 0;
		if (n < 0)
			die(errno, "recv on connection %u", s->id);
		if (n == 0)
			die(0, "the server closed connection %u", s->id);
		if (!s->waiting)
			die(0, "connection %u: %zd bytes that nobody asked for", s->id, n);
		if (!all)
			all = expect(s);
		if (s->have + (size_t)n > all)
			die(0, "connection %u: %zu bytes too many after request %llu", s->id, s->have + (size_t)n - all,
				(unsigned long long)s->sequence);
		if (memcmp(in, want + s->have, (size_t)n) != 0)
			die(0, "connection %u: a wrong answer to one of the %d requests up to %llu", s->id, opt.depth,
				(unsigned long long)s->sequence);
		s->have += (size_t)n;
		uint64_t t = meter_tick(&meter);
		for (; s->answered < opt.depth && ends[s->answered] <= s->have; s->answered++)
			meter_answer(&meter, s->sent_at, t);
		if (s->answered == opt.depth) {
			s->waiting = 0;
			return 1;
		}
	}
}

static void silent(const struct stream *s, uint64_t t) {
	if (s->waiting && t > s->sent_at + SILENCE_SECONDS * 1000000000ull) // t may be a little older than the request
		die(0, "connection %u: no answer within %d s", s->id, SILENCE_SECONDS);
}

// stream_exchange does one batch outside the measurement; it proves that the connection works end to end.
static void stream_exchange(struct stream *s) {
	stream_request(s, now_ns());
	while (!stream_read(s)) {
		silent(s, now_ns());
		cpu_pause();
	}
}

// --- The run ----------------------------------------------------------------------------------------------------------

static void run_one(void) {
	struct stream *s = &streams[0];
	while (!meter.finished) {
		stream_request(s, meter_tick(&meter));
		while (!stream_read(s))
			silent(s, meter_tick(&meter));
	}
}

static void run_many(void) {
	static struct epoll_event events[EVENTS];
	int ep = epoll_create1(0), waiting = opt.conns;
	if (ep < 0)
		die(errno, "epoll_create1");
	for (int i = 0; i < opt.conns; i++) {
		struct epoll_event e = {.events = EPOLLIN | EPOLLET, .data.ptr = &streams[i]};
		if (epoll_ctl(ep, EPOLL_CTL_ADD, streams[i].fd, &e) != 0)
			die(errno, "epoll_ctl connection %d", i);
	}
	for (int i = 0; i < opt.conns; i++)
		stream_request(&streams[i], meter_tick(&meter));
	// After the measured span what is outstanding still comes home.
	for (uint64_t next_scan = 0; waiting > 0;) {
		int n = epoll_wait(ep, events, EVENTS, 0);
		if (n < 0 && errno != EINTR)
			die(errno, "epoll_wait");
		uint64_t t = meter_tick(&meter);
		for (int i = 0; i < n; i++) {
			struct stream *s = events[i].data.ptr;
			if (!stream_read(s))
				continue;
			if (meter.finished)
				waiting--;
			else
				stream_request(s, meter_tick(&meter));
		}
		if (t >= next_scan) {
			for (int i = 0; i < opt.conns; i++)
				silent(&streams[i], t);
			next_scan = t + 100000000;
		}
	}
	close(ep);
}

// --- Command line -----------------------------------------------------------------------------------------------------

static void parse(int argc, char **argv) {
	static const struct option known[] = {{"app", 1, 0, 'A'}, {"addr", 1, 0, 'a'}, {"port", 1, 0, 'P'}, {"conns", 1, 0, 'n'},
		{"size", 1, 0, 'b'}, {"depth", 1, 0, 'd'}, {"seconds", 1, 0, 's'}, {"warmup", 1, 0, 'w'}, {"cpu", 1, 0, 'c'},
		{"server-pid", 1, 0, 'i'}, {"server-cpu", 1, 0, 'u'}, {0}};
	const char *addr = "127.0.0.1", *app = "";
	int port = 0, c;
	while ((c = getopt_long_only(argc, argv, "", known, NULL)) != -1) {
		switch (c) {
		case 'A': app = optarg; break;
		case 'a': addr = optarg; break;
		case 'P': port = (int)number("port", optarg, 1, 65535); break;
		case 'n': opt.conns = (int)number("conns", optarg, 1, 60000); break;
		case 'b': opt.size = (int)number("size", optarg, 1, SIZE_MAX_BYTES); break;
		case 'd': opt.depth = (int)number("depth", optarg, 1, DEPTH_MAX); break;
		case 's': opt.seconds = number("seconds", optarg, 0.01, 3600); break;
		case 'w': opt.warmup = number("warmup", optarg, 0, 60); break;
		case 'c': opt.cpu = (int)number("cpu", optarg, 0, CPU_SETSIZE - 1); break;
		case 'i': opt.server_pid = (int)number("server-pid", optarg, 1, 1 << 30); break;
		case 'u': opt.server_cpu = (int)number("server-cpu", optarg, 0, CPU_SETSIZE - 1); break;
		default: exit(2);
		}
	}
	if (optind < argc)
		die(0, "unexpected argument %s", argv[optind]);
	opt.resp = strcmp(app, "resp") == 0;
	if (!opt.resp && strcmp(app, "echo") != 0)
		die(0, "-app %s: want echo or resp", app);
	if (port == 0)
		die(0, "-port is missing");
	opt.addr.sin_family = AF_INET;
	opt.addr.sin_port = htons((uint16_t)port);
	if (inet_pton(AF_INET, addr, &opt.addr.sin_addr) != 1)
		die(0, "-addr %s: want an IPv4 address", addr);
}

int main(int argc, char **argv) {
	parse(argc, argv);
	pin(opt.cpu);
	raise_descriptors();
	// Whatever goes wrong, the process does not outlive its run by more than a minute.
	alarm((unsigned)(opt.seconds + opt.warmup) + 60);
	size_t most = (size_t)opt.depth * ((size_t)opt.size + OVERHEAD);
	out = malloc(most), want = malloc(most), in = malloc(most);
	streams = calloc((size_t)opt.conns, sizeof *streams);
	if (!out || !want || !in || !streams)
		die(ENOMEM, "buffers");
	for (int i = 0; i < opt.conns; i++) {
		stream_open(&streams[i], (uint32_t)i);
		stream_exchange(&streams[i]);
	}
	meter_start(&meter, opt.warmup, opt.seconds, opt.server_pid, opt.server_cpu);
	if (opt.conns == 1)
		run_one();
	else
		run_many();
	// What is still in the sockets now was answered twice: stream_read says so.
	struct timespec moment = {0, 2000000};
	nanosleep(&moment, NULL);
	// A reset instead of a FIN leaves no TIME_WAIT behind.
	struct linger reset = {.l_onoff = 1, .l_linger = 0};
	for (int i = 0; i < opt.conns; i++) {
		stream_read(&streams[i]);
		setsockopt(streams[i].fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
	}
	meter_print(&meter, "pipeline");
	return 0;
}
