// The load generator of the benchmark: one process, one thread, spinning. It prints one line of JSON and ends by itself.
//
//   client -proto udp|tcp -port P [-addr A] [-mode pingpong|oneway|gap|idle] [-conns N] [-idle M] [-seconds S]
//          [-warmup S] [-gap-ms G] [-settle S] [-cpu C] [-server-pid PID] [-server-cpu C] [-window W] [-block] [-sockperf]
//
//   pingpong  closed loop: every flow has one 64-byte request outstanding. One flow: send and recv in a plain spin;
//             more: an epoll_wait(0) spin. With -idle, M more connections are opened, exchange one message each and are
//             then left alone until the end, where each must still answer; what they cost the server and the kernel in
//             memory is read from /proc before and after they are opened.
//             One flow: -block sleeps in recv instead of spinning. UDP with one flow: -window W keeps W requests outstanding on it;
//             -sockperf writes each request as sockperf's client would, for its server.
//   gap       one flow, one request every G milliseconds, the client spinning in between: what is measured is how
//             quickly a server that went to sleep wakes up.
//   oneway    64-byte messages as fast as they can be sent; the server counts and is asked for its count.
//   idle      open the connections, exchange one message on each, then leave them alone: what is measured is the CPU
//             time of a server with nothing to do.
#define _GNU_SOURCE
#include "window.h"

#include <getopt.h>
#include <netinet/udp.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { ANSWER_TIMEOUT_NS = 2000000000 }; // UDP: given up, counted lost, the flow goes on with the next request
enum { SILENCE_SECONDS = 5 };            // no answer at all for so long: the run ends
enum { EVENTS = 512, TCP_BATCH = 256, UDP_BATCH = 32 };

struct flow {
	int fd, waiting;
	uint32_t id;
	uint64_t sequence, abandoned; // of the last request; of the last one given up, 0 when none
	uint64_t sent_at;
	size_t have; // bytes of in that have arrived (TCP)
	struct message out, in;
};

static struct options {
	int tcp, conns, idle, cpu, server_pid, server_cpu, window, block, sockperf;
	struct sockaddr_in addr;
	const char *mode;
	double seconds, warmup, settle, gap_ms;
} opt = {.conns = 1, .window = 1, .cpu = -1, .server_cpu = -1, .mode = "pingpong", .seconds = 1, .warmup = 0.1, .settle = 0.3,
	.gap_ms = 30};

static struct meter meter = {.next = UINT64_MAX}; // no phase begins before meter_start
static struct flow *flows; // conns of them, then the idle ones
static struct window window;

static int all_flows(void) { return opt.conns + opt.idle; }

// --- One flow ---------------------------------------------------------------------------------------------------------

static void flow_open(struct flow *f, uint32_t id) {
	f->id = id;
	f->fd = socket(AF_INET, opt.tcp ? SOCK_STREAM : SOCK_DGRAM, 0);
	if (f->fd < 0)
		die(errno, "socket %u", id);
	if (connect(f->fd, (struct sockaddr *)&opt.addr, sizeof opt.addr) != 0)
		die(errno, "connect %u to port %d", id, ntohs(opt.addr.sin_port));
	if (opt.tcp)
		no_delay(f->fd);
	struct timeval patience = {.tv_usec = 200000}; // a lost message must not end in silence
	if (opt.block && setsockopt(f->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0)
		die(errno, "SO_RCVTIMEO");
}

// --- sockperf's messages ----------------------------------------------------------------------------------------------

// The header of a sockperf message is 14 bytes in network order: sequence (8), flags (2), length (4). Its server returns a message that
// says "from a client, answer wanted" with the first of these flags cleared. The other 50 bytes are ours.
enum { SOCKPERF_CLIENT = 1, SOCKPERF_ANSWER = 2 };

static void sockperf_dress(struct message *m) {
	uint64_t sequence = __builtin_bswap64(m->sequence);
	uint16_t flags = htons(SOCKPERF_CLIENT | SOCKPERF_ANSWER);
	uint32_t length = htonl(MESSAGE_SIZE);
	memcpy(m, &sequence, 8);
	memcpy((char *)m + 8, &flags, 2);
	memcpy((char *)m + 10, &length, 4);
}

// sockperf_undress makes an answer the message it was; 0 when it is none.
static int sockperf_undress(struct message *m) {
	uint64_t sequence;
	uint16_t flags, rest;
	uint32_t length;
	memcpy(&sequence, m, 8);
	memcpy(&flags, (char *)m + 8, 2);
	memcpy(&length, (char *)m + 10, 4);
	memcpy(&rest, (char *)m + 14, 2);
	if (ntohs(flags) != SOCKPERF_ANSWER || ntohl(length) != MESSAGE_SIZE || rest != 0)
		return 0;
	m->magic = MESSAGE_MAGIC;
	m->kind = MESSAGE_REQUEST;
	m->sequence = __builtin_bswap64(sequence);
	return 1;
}

// flow_write hands bytes to the socket, spinning while its buffer is full.
static void flow_write(struct flow *f, const void *data, size_t size) {
	const char *p = data;
	while (size > 0) {
		ssize_t n = send(f->fd, p, size, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0) {
			if (!would_block(errno) && errno != ENOBUFS)
				die(errno, "send on flow %u", f->id);
			meter_tick(&meter);
			continue;
		}
		p += n;
		size -= (size_t)n;
	}
}

static void flow_request(struct flow *f, uint64_t now) {
	message_make(&f->out, MESSAGE_REQUEST, f->id, ++f->sequence);
	f->sent_at = now;
	f->waiting = 1;
	if (opt.sockperf) {
		struct message dressed = f->out;
		sockperf_dress(&dressed);
		flow_write(f, &dressed, MESSAGE_SIZE);
	} else {
		flow_write(f, &f->out, MESSAGE_SIZE);
	}
	meter.sent++;
}

// flow_unexpected counts a message that is not the awaited answer.
static void flow_unexpected(struct flow *f, const struct message *in) {
	struct message want;
	message_make(&want, MESSAGE_REQUEST, f->id, in->sequence);
	if (memcmp(in, &want, MESSAGE_SIZE) != 0 || in->sequence == 0 || in->sequence > f->sequence) {
		meter.corrupt++;
	} else if (in->sequence == f->abandoned) { // late after all
		f->abandoned = 0;
		meter.lost--;
		meter.out_of_order++;
	} else {
		meter.duplicated++;
	}
}

// flow_next takes one whole message off the socket into f->in; 0 when none is complete yet.
static int flow_next(struct flow *f) {
	for (;;) {
		int flags = (opt.block ? 0 : MSG_DONTWAIT) | (opt.tcp ? 0 : MSG_TRUNC); // MSG_TRUNC: the true length of a datagram
		ssize_t n = recv(f->fd, (char *)&f->in + f->have, MESSAGE_SIZE - f->have, flags);
		if (n < 0) {
			if (would_block(errno))
				return 0;
			die(errno, "recv on flow %u", f->id);
		}
		if (opt.tcp) {
			if (n == 0)
				die(0, "the server closed flow %u", f->id);
			f->have += (size_t)n;
			if (f->have < MESSAGE_SIZE)
				continue;
			f->have = 0;
			if (opt.block)
				meter.last = now_ns(); // asleep, not lost
			return 1;
		}
		if (opt.block)
			meter.last = now_ns(); // likewise
		if (n == MESSAGE_SIZE && (!opt.sockperf || sockperf_undress(&f->in)))
			return 1;
		meter.corrupt++;
	}
}

// flow_answered says whether the awaited answer has arrived; everything else on the way is counted.
static int flow_answered(struct flow *f) {
	while (flow_next(f)) {
		if (f->waiting && memcmp(&f->in, &f->out, MESSAGE_SIZE) == 0) {
			f->waiting = 0;
			return 1;
		}
		flow_unexpected(f, &f->in);
	}
	return 0;
}

static void flow_abandon(struct flow *f) {
	meter.timeouts++;
	meter.lost++;
	f->abandoned = f->sequence;
	f->waiting = 0;
}

// flow_exchange does one request and its answer outside the measurement; it proves that the flow works end to end.
static void flow_exchange(struct flow *f) {
	uint64_t from = now_ns();
	flow_request(f, from);
	while (!flow_answered(f)) {
		if (now_ns() - from > SILENCE_SECONDS * 1000000000ull)
			die(0, "flow %u: no answer within %d s", f->id, SILENCE_SECONDS);
		cpu_pause();
	}
}

static void sleep_seconds(double seconds) {
	struct timespec length = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
	nanosleep(&length, NULL);
}

// open_idle opens the idle connections and notes what they cost. The server is left alone before each look, so that what it
// does late is in it.
static void open_idle(void) {
	sleep_seconds(opt.settle);
	meter_memory(&meter.before, opt.server_pid);
	for (int i = opt.conns; i < all_flows(); i++) {
		flow_open(&flows[i], (uint32_t)i);
		flow_exchange(&flows[i]);
	}
	sleep_seconds(opt.settle);
	meter_memory(&meter.with, opt.server_pid);
	meter.idle = opt.idle;
}

// --- Modes ------------------------------------------------------------------------------------------------------------

// run_single is pingpong with one flow, and gap.
static void run_single(uint64_t gap) {
	struct flow *f = &flows[0];
	uint64_t answered_at = now_ns();
	while (!meter.finished) {
		uint64_t from = meter_tick(&meter), t = from;
		int answered;
		flow_request(f, from);
		while (!(answered = flow_answered(f))) {
			t = meter_tick(&meter);
			if (t - from > ANSWER_TIMEOUT_NS && !opt.tcp) {
				flow_abandon(f);
				break;
			}
			if (t - answered_at > SILENCE_SECONDS * 1000000000ull) {
				flow_abandon(f);
				die(0, "no answer for %d s", SILENCE_SECONDS);
			}
		}
		if (answered) {
			t = meter_tick(&meter);
			answered_at = t;
			meter_answer(&meter, from, t);
		}
		while (gap && !meter.finished && meter_tick(&meter) - from < gap)
			cpu_pause();
	}
}

// run_window keeps several requests outstanding on one flow.
static void run_window(void) {
	struct flow *f = &flows[0];
	uint64_t answered_at = now_ns(), moved_at = answered_at;
	for (;;) {
		uint64_t now = meter_tick(&meter);
		if (meter.finished && window.outstanding == 0)
			return;
		while (!meter.finished && window.outstanding < opt.window) {
			window_request(&window, &meter, &f->out, now);
			flow_write(f, &f->out, MESSAGE_SIZE);
		}
		int got = 0;
		while (flow_next(f))
			got += window_answer(&window, &meter, &f->in, meter_tick(&meter));
		if (got > 0) {
			answered_at = moved_at = meter.last;
		} else if ((now = meter_tick(&meter)) - moved_at > ANSWER_TIMEOUT_NS) {
			if (now - answered_at > SILENCE_SECONDS * 1000000000ull)
				die(0, "no answer for %d s", SILENCE_SECONDS);
			window_abandon(&window, &meter);
			moved_at = now;
		}
	}
}

static int outstanding(void) {
	int n = 0;
	for (int i = 0; i < opt.conns; i++)
		n += flows[i].waiting;
	return n;
}

// scan gives up the requests that have waited too long. A TCP stream cannot lose one, so its flow just stays silent.
static void scan(uint64_t t) {
	for (int i = 0; i < opt.conns; i++) {
		struct flow *f = &flows[i];
		uint64_t limit = opt.tcp ? SILENCE_SECONDS * 1000000000ull : ANSWER_TIMEOUT_NS;
		if (!f->waiting || t - f->sent_at <= limit)
			continue;
		flow_abandon(f);
		if (!opt.tcp && !meter.finished)
			flow_request(f, t);
	}
}

static void run_many(void) {
	static struct epoll_event events[EVENTS];
	int ep = epoll_create1(0);
	if (ep < 0)
		die(errno, "epoll_create1");
	for (int i = 0; i < opt.conns; i++) {
		struct epoll_event e = {.events = EPOLLIN | EPOLLET, .data.ptr = &flows[i]};
		if (epoll_ctl(ep, EPOLL_CTL_ADD, flows[i].fd, &e) != 0)
			die(errno, "epoll_ctl flow %d", i);
	}
	for (int i = 0; i < opt.conns; i++)
		flow_request(&flows[i], meter_tick(&meter));
	// After the measured span the outstanding requests get two more seconds to come home.
	uint64_t next_scan = 0, grace = 0;
	for (;;) {
		int n = epoll_wait(ep, events, EVENTS, 0);
		if (n < 0 && errno != EINTR)
			die(errno, "epoll_wait");
		uint64_t t = meter_tick(&meter);
		for (int i = 0; i < n; i++) {
			struct flow *f = events[i].data.ptr;
			if (!flow_answered(f))
				continue;
			t = meter_tick(&meter);
			meter_answer(&meter, f->sent_at, t);
			if (!meter.finished)
				flow_request(f, t);
		}
		if (t >= next_scan) {
			scan(t);
			next_scan = t + 100000000;
		}
		if (!meter.finished)
			continue;
		if (!grace)
			grace = t + 2000000000ull;
		if (n <= 0 && (outstanding() == 0 || t >= grace))
			break;
	}
	for (int i = 0; i < opt.conns; i++)
		if (flows[i].waiting)
			flow_abandon(&flows[i]);
	close(ep);
}

// ask sends a query; answered later through query_answer.
static void ask(struct flow *f, uint64_t id) {
	struct message m;
	message_make(&m, MESSAGE_QUERY, f->id, id);
	flow_write(f, &m, MESSAGE_SIZE);
}

// query_answer says whether the answer to the query with this id has arrived in f->in. Answers to earlier queries may
// come too, because a query lost in a flood is asked again.
static int query_answer(struct flow *f, uint64_t id) {
	while (flow_next(f)) {
		if (f->in.magic != MESSAGE_MAGIC || f->in.kind != MESSAGE_ANSWER || f->in.flow != f->id || f->in.sequence > id)
			meter.corrupt++;
		else if (f->in.sequence == id)
			return 1;
	}
	return 0;
}

// count_now asks until the server answers and returns its count; only for moments when nothing else is being sent.
static struct message count_now(struct flow *f, uint64_t id) {
	uint64_t from = now_ns(), asked = 0, t;
	while ((t = now_ns()) - from < SILENCE_SECONDS * 1000000000ull) {
		if (!asked || (!opt.tcp && t - asked > 20000000)) {
			ask(f, id);
			asked = t;
		}
		if (query_answer(f, id))
			return f->in;
	}
	die(0, "the server did not answer the query for its count within %d s", SILENCE_SECONDS);
}

// run_oneway floods one flow. Rates come from the server's own counts: a query travels inside the stream at the start
// of the measured span, at every window's end and after the last message.
static void run_oneway(void) {
	struct flow *f = &flows[0];
	static struct message batch[TCP_BATCH];
	const int size = opt.tcp ? TCP_BATCH : UDP_BATCH;
	// One send of many datagrams, each a skb of its own by the time it is in the server's queue. With a send for each
	// the client, not the server, would be what is measured.
	int segment = MESSAGE_SIZE;
	if (!opt.tcp && setsockopt(f->fd, SOL_UDP, UDP_SEGMENT, &segment, sizeof segment) != 0)
		die(errno, "UDP_SEGMENT (since Linux 4.18)");
	meter.counts_itself = 1;
	uint64_t base = count_now(f, 1).received; // 0 on a fresh server
	// On a host too busy to answer a query in time, the span begins here instead, warm-up included.
	uint64_t first_at = now_ns(), first = base;
	uint64_t query = 1, counted_at = 0, counted = 0, batches_since = 0, sequence = 0, next_query = 0;
	int pending = 0;
	while (!meter.finished) {
		uint64_t t = meter_tick(&meter);
		// UDP drops queries like everything else when the server's buffer is full; ask again until one comes through.
		if (meter.measuring && !pending && t >= next_query) {
			pending = 1;
			query++;
			batches_since = 0;
			next_query = (next_query ? next_query : meter.begin) + meter.window;
			ask(f, query);
		} else if (pending && !opt.tcp && ++batches_since % 16 == 0) {
			ask(f, query);
		}
		if (pending && query_answer(f, query)) {
			t = now_ns();
			if (counted_at && meter.windows < WINDOWS_MAX)
				meter.rates[meter.windows++] = (double)(f->in.received - counted) * 1e9 / (double)(t - counted_at);
			if (!counted_at) {
				first = f->in.received;
				first_at = t;
			}
			counted = f->in.received;
			counted_at = t;
			pending = 0;
		}
		for (int i = 0; i < size; i++)
			message_make(&batch[i], MESSAGE_DATA, f->id, ++sequence);
		flow_write(f, batch, (size_t)size * MESSAGE_SIZE);
	}
	struct message last = count_now(f, query + 1);
	uint64_t t = now_ns();
	uint64_t received = last.received - base;
	if (counted_at && t - counted_at >= meter.window / 2 && meter.windows < WINDOWS_MAX)
		meter.rates[meter.windows++] = (double)(last.received - counted) * 1e9 / (double)(t - counted_at);
	meter.sent = sequence;
	meter.lost = sequence > received ? sequence - received : 0;
	meter.duplicated = received > sequence ? received - sequence : 0;
	meter.out_of_order = last.behind;
	// The span runs from the first answered query to the last answer, so that what was still queued is counted with
	// the time it took.
	meter.n = last.received - first;
	if (meter.windows == 0)
		meter.rates[meter.windows++] = (double)meter.n * 1e9 / (double)(t - first_at);
	meter.begin = first_at;
	meter.end = t;
}

// run_idle sleeps beside connections that have gone quiet, and proves afterwards that they still work.
static void run_idle(void) {
	meter.counts_itself = 1;
	sleep_seconds(opt.settle);
	meter_turn(&meter, now_ns());
	sleep_seconds(opt.seconds);
	meter.last = now_ns(); // asleep, not lost
	meter_turn(&meter, meter.last);
	for (int i = 0; i < opt.conns; i++)
		flow_exchange(&flows[i]);
	meter.n = (uint64_t)opt.conns;
}

// --- Command line -----------------------------------------------------------------------------------------------------

static void parse(int argc, char **argv) {
	static const struct option known[] = {{"proto", 1, 0, 'p'}, {"addr", 1, 0, 'a'}, {"port", 1, 0, 'P'},
		{"mode", 1, 0, 'm'}, {"oneway", 0, 0, 'o'}, {"conns", 1, 0, 'n'}, {"idle", 1, 0, 'q'}, {"seconds", 1, 0, 's'},
		{"warmup", 1, 0, 'w'}, {"gap-ms", 1, 0, 'g'}, {"settle", 1, 0, 'e'}, {"cpu", 1, 0, 'c'}, {"server-pid", 1, 0, 'i'},
		{"server-cpu", 1, 0, 'u'}, {"window", 1, 0, 'W'}, {"block", 0, 0, 'b'}, {"sockperf", 0, 0, 'S'}, {0}};
	const char *addr = "127.0.0.1", *proto = "";
	int port = 0, c;
	while ((c = getopt_long_only(argc, argv, "", known, NULL)) != -1) {
		switch (c) {
		case 'p': proto = optarg; break;
		case 'a': addr = optarg; break;
		case 'P': port = (int)number("port", optarg, 1, 65535); break;
		case 'm': opt.mode = optarg; break;
		case 'o': opt.mode = "oneway"; break;
		case 'n': opt.conns = (int)number("conns", optarg, 1, 60000); break;
		case 'q': opt.idle = (int)number("idle", optarg, 0, 60000); break;
		case 's': opt.seconds = number("seconds", optarg, 0.01, 3600); break;
		case 'w': opt.warmup = number("warmup", optarg, 0, 60); break;
		case 'g': opt.gap_ms = number("gap-ms", optarg, 0.001, 10000); opt.mode = "gap"; break;
		case 'e': opt.settle = number("settle", optarg, 0, 60); break;
		case 'c': opt.cpu = (int)number("cpu", optarg, 0, CPU_SETSIZE - 1); break;
		case 'i': opt.server_pid = (int)number("server-pid", optarg, 1, 1 << 30); break;
		case 'W': opt.window = (int)number("window", optarg, 1, WINDOW_MAX); break;
		case 'b': opt.block = 1; break;
		case 'S': opt.sockperf = 1; break;
		case 'u': opt.server_cpu = (int)number("server-cpu", optarg, 0, CPU_SETSIZE - 1); break;
		default: exit(2);
		}
	}
	if (optind < argc)
		die(0, "unexpected argument %s", argv[optind]);
	opt.tcp = strcmp(proto, "tcp") == 0;
	if (!opt.tcp && strcmp(proto, "udp") != 0)
		die(0, "-proto %s: want tcp or udp", proto);
	if (port == 0)
		die(0, "-port is missing");
	opt.addr.sin_family = AF_INET;
	opt.addr.sin_port = htons((uint16_t)port);
	if (inet_pton(AF_INET, addr, &opt.addr.sin_addr) != 1)
		die(0, "-addr %s: want an IPv4 address", addr);
	int single = strcmp(opt.mode, "gap") == 0 || strcmp(opt.mode, "oneway") == 0;
	if (!single && strcmp(opt.mode, "pingpong") != 0 && strcmp(opt.mode, "idle") != 0)
		die(0, "-mode %s: want pingpong, oneway, gap or idle", opt.mode);
	if (single && opt.conns != 1)
		die(0, "-conns %d: mode %s has one flow", opt.conns, opt.mode);
	int special = opt.window > 1 || opt.block || opt.sockperf;
	if (special && (opt.conns != 1 || strcmp(opt.mode, "pingpong") != 0))
		die(0, "-window, -block and -sockperf: only with -mode pingpong and -conns 1");
	if (opt.tcp && (opt.window > 1 || opt.sockperf))
		die(0, "-window and -sockperf: only with -proto udp");
	if (opt.window > 1 && (opt.block || opt.sockperf))
		die(0, "-window %d: not with -block or -sockperf", opt.window);
	if (opt.idle > 0 && (!opt.tcp || opt.conns < 2 || strcmp(opt.mode, "pingpong") != 0 || opt.server_pid == 0))
		die(0, "-idle %d: wants -proto tcp, -mode pingpong, -conns 2 or more and -server-pid", opt.idle);
}

int main(int argc, char **argv) {
	parse(argc, argv);
	pin(opt.cpu);
	raise_descriptors();
	// Whatever goes wrong, the process does not outlive its run by more than a minute.
	alarm((unsigned)(opt.seconds + opt.warmup + 2 * opt.settle) + 60);
	flows = calloc((size_t)all_flows(), sizeof *flows);
	if (!flows)
		die(ENOMEM, "flows");
	int oneway = strcmp(opt.mode, "oneway") == 0;
	// One exchange per flow as it opens: the server's backlog never fills, and every flow is known to work.
	for (int i = 0; i < opt.conns; i++) {
		flow_open(&flows[i], (uint32_t)i);
		if (!oneway)
			flow_exchange(&flows[i]);
	}
	if (opt.idle > 0)
		open_idle();
	meter_start(&meter, opt.warmup, opt.seconds, opt.server_pid, opt.server_cpu);
	if (oneway)
		run_oneway();
	else if (strcmp(opt.mode, "idle") == 0)
		run_idle();
	else if (strcmp(opt.mode, "gap") == 0)
		run_single((uint64_t)(opt.gap_ms * 1e6));
	else if (opt.window > 1)
		run_window();
	else if (opt.conns == 1)
		run_single(0);
	else
		run_many();
	for (int i = opt.conns; i < all_flows(); i++) // the idle ones are not forgotten
		flow_exchange(&flows[i]);
	// What is still in the sockets now was answered twice.
	if (!oneway) {
		struct timespec moment = {0, 2000000};
		nanosleep(&moment, NULL);
		for (int i = 0; i < all_flows(); i++)
			flow_answered(&flows[i]);
	}
	// A reset instead of a FIN leaves no TIME_WAIT behind, which thousands of connections per round would pile up.
	struct linger reset = {.l_onoff = 1, .l_linger = 0};
	for (int i = 0; i < all_flows() && opt.tcp; i++)
		setsockopt(flows[i].fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
	meter_print(&meter, opt.mode);
	return 0;
}
