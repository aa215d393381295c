// The source of the receive rows: UDP datagrams that the kernel makes of one template and puts on a veth without a socket, a socket
// buffer or a system call each ("live frames", BPF_PROG_TEST_RUN with BPF_F_TEST_XDP_LIVE_FRAMES, Linux 5.18). A program numbers them.
// The receiving end's share of the kernel's work is done by the source's CPU as well.
//
//   source -iface IF -addr A -peer A -port P -peer-mac M [-groups N -base G] [-size B] [-windows N] [-window-s S] [-probe-s S]
//          [-spoiled K] [-lost F] [-server-pid PID] [-server-cpu C]
//
// It looks for the highest rate at which of N windows of S seconds all but K lose no more than the part F (RFC 2544 section 26.1 with
// an allowance for the host): first a flood, then a bisection in probes, then the windows themselves, at a rate that comes down until
// they pass. After each window the server is asked for its count, so that each loss belongs to its window. One line of JSON as
// client.c prints; rates are those that were received in the windows.
#define _GNU_SOURCE
#include "bpf.h"
#include "frame.h"
#include "meter.h"

#include <getopt.h>

enum { LONGEST = 1472, BURST_MAX = 1024, BATCH = 64, TRIES = 16, BISECTIONS = 6 };
enum { ASK_NS = 2000000, ANSWER_SECONDS = 5 };

static struct options {
	const char *iface, *base;
	struct sockaddr_in addr, peer;
	unsigned char peer_mac[6];
	int groups, size, windows, spoiled, server_pid, server_cpu;
	double window, probe, lost;
} opt = {.iface = "", .base = "239.77.7.0", .size = MESSAGE_SIZE, .windows = 10, .spoiled = 2, .server_cpu = -1, .window = 1,
	.probe = 0.2, .lost = 0.001};

static struct meter meter = {.next = UINT64_MAX};
static int control; // a kernel socket, for questions
static int program;
static unsigned char frame[FRAME_HEADERS + LONGEST];
static uint64_t sent, question;

// --- The program that numbers the frames ------------------------------------------------------------------------------

// load_program assembles it. Its map has one value: the number of frames so far, and the group of the next one. The frames of a run are
// used again and again by the kernel, as they were left, so everything that differs is written anew each time.
static void load_program(unsigned ifindex) {
	enum { SEQUENCE = 0, GROUP = 8, STATE_BYTES = 16 };
	int state = bpf_map(BPF_MAP_TYPE_ARRAY, STATE_BYTES, 1, 0);
	unsigned char plain[FRAME_HEADERS];
	memcpy(plain, frame, sizeof plain);
	put16(plain + AT_IP_SUM, 0);
	plain[AT_TARGET + 3] = 0;
	const uint32_t base = frame_sum(plain); // below 2^20
	const int at = FRAME_HEADERS, multicast = opt.groups > 0;
	struct bpf_insn code[64];
	size_t n = 0;
#define EMIT(...) do { \
		const struct bpf_insn more[] = {__VA_ARGS__}; \
		memcpy(code + n, more, sizeof more); \
		n += sizeof more / sizeof more[0]; \
	} while (0)
	EMIT(LOAD(BPF_W, 6, 1, offsetof(struct xdp_md, data)), LOAD(BPF_W, 7, 1, offsetof(struct xdp_md, data_end)),
		MOV_REG(2, 6), ALU_IMM(BPF_ADD, 2, FRAME_HEADERS + MESSAGE_SIZE), JUMP_REG(BPF_JLE, 2, 7, 2),
		MOV_IMM(0, XDP_ABORTED), EXIT());
	EMIT(LOAD_MAP_VALUE(8, state), LOAD(BPF_DW, 9, 8, SEQUENCE), ALU_IMM(BPF_ADD, 9, 1), STORE(BPF_DW, 8, SEQUENCE, 9),
		STORE(BPF_DW, 6, at + (int)offsetof(struct message, sequence), 9), LOAD_64(2, 0, 0x9e3779b97f4a7c15ull));
	for (int i = 0; i < 3; i++) // as message_make does, for flow 0
		EMIT(MOV_REG(3, 9), ALU_IMM(BPF_ADD, 3, i + 1), ALU_REG(BPF_MUL, 3, 2),
			STORE(BPF_DW, 6, at + (int)offsetof(struct message, fill) + 8 * i, 3));
	if (multicast) { // the last byte of both addresses, and the header's sum
		EMIT(LOAD(BPF_DW, 3, 8, GROUP), ALU_IMM(BPF_ADD, 3, 1), MOV_REG(4, 3), JUMP_IMM(BPF_JLT, 4, opt.groups, 1), MOV_IMM(4, 0),
			STORE(BPF_DW, 8, GROUP, 4), STORE(BPF_B, 6, AT_TARGET + 3, 3), STORE(BPF_B, 6, 5, 3));
		EMIT(ALU_IMM(BPF_LSH, 3, 8), ALU_IMM(BPF_ADD, 3, (int32_t)base)); // the odd byte of a word, on a little-endian machine
		for (int i = 0; i < 2; i++)
			EMIT(MOV_REG(4, 3), ALU_IMM(BPF_RSH, 4, 16), ALU_IMM(BPF_AND, 3, 0xffff), ALU_REG(BPF_ADD, 3, 4));
		EMIT(ALU_IMM(BPF_XOR, 3, 0xffff), STORE(BPF_H, 6, AT_IP_SUM, 3));
	}
	EMIT(MOV_IMM(1, (int32_t)ifindex), MOV_IMM(2, 0), CALL(BPF_FUNC_redirect), EXIT());
#undef EMIT
	program = bpf_program(code, n);
	// Each run puts the program on the kernel's list of those that are called directly, and takes it off again, at the price of two grace
	// periods, some 20 ms. One that is on an interface is on the list already. Nothing goes over this one.
	bpf_attach(program, interface_index("lo"), 0);
}

// frames makes the kernel send n frames.
static void frames(uint32_t n) {
	union bpf_attr attr = {0};
	attr.test.prog_fd = (uint32_t)program;
	attr.test.data_in = (uint64_t)(uintptr_t)frame;
	attr.test.data_size_in = (uint32_t)(FRAME_HEADERS + opt.size);
	attr.test.repeat = n;
	attr.test.flags = BPF_F_TEST_XDP_LIVE_FRAMES;
	attr.test.batch_size = BATCH;
	if (bpf_call(BPF_PROG_TEST_RUN, &attr) != 0)
		die(errno, "live frames (since Linux 5.18)");
	sent += n;
}

// --- The receiver's count ---------------------------------------------------------------------------------------------

// count_now asks the server until it answers: what is queued before the question has then been counted.
static struct message count_now(void) {
	struct message m, in;
	question++;
	for (uint64_t from = now_ns(), next = from;;) {
		uint64_t t = now_ns();
		if (t >= next) {
			message_make(&m, MESSAGE_QUERY, 0, question);
			if (send(control, &m, sizeof m, MSG_DONTWAIT) < 0 && !would_block(errno) && errno != ENOBUFS && errno != ECONNREFUSED)
				die(errno, "ask the server");
			next = t + ASK_NS;
		}
		if (recv(control, &in, sizeof in, MSG_DONTWAIT) == sizeof in) {
			if (in.magic != MESSAGE_MAGIC || in.kind != MESSAGE_ANSWER || in.sequence > question)
				meter.corrupt++;
			else if (in.sequence == question)
				return in;
		}
		if (t - from > ANSWER_SECONDS * 1000000000ull)
			die(0, "the server does not tell its count for %d s", ANSWER_SECONDS);
	}
}

// --- One window -------------------------------------------------------------------------------------------------------

struct result { uint64_t sent, received; double seconds, sending; };

// offer sends at the rate (0: as fast as it goes) for so long, in bursts that a receive ring has room for.
static struct result offer(double rate, double seconds) {
	struct result r = {.sent = sent, .received = count_now().received};
	uint32_t burst = BURST_MAX;
	if (rate > 0 && rate * 200e-6 < BURST_MAX)
		burst = rate * 200e-6 < BATCH ? BATCH : (uint32_t)(rate * 200e-6);
	uint64_t from = now_ns(), end = from + (uint64_t)(seconds * 1e9), t = from;
	meter.last = from;
	while (t < end) {
		uint64_t due = rate > 0 ? from + (uint64_t)((double)(sent - r.sent) / rate * 1e9) : 0;
		if (t >= due) {
			frames(burst);
			meter.last = now_ns(); // inside the call a gap cannot be told from work
		}
		t = meter_tick(&meter);
	}
	r.sending = (double)(now_ns() - from) / 1e9;
	r.sent = sent - r.sent;
	r.received = count_now().received - r.received;
	r.seconds = (double)(now_ns() - from) / 1e9;
	return r;
}

static double lost_part(const struct result *r) {
	return r->sent > r->received ? (double)(r->sent - r->received) / (double)r->sent : 0;
}

// --- The search -------------------------------------------------------------------------------------------------------

// clean probes a rate. A moment that the host took away looks like a loss, so a probe fails only twice.
static int clean(double rate) {
	for (int i = 0; i < 2; i++) {
		struct result r = offer(rate, opt.probe);
		if (lost_part(&r) <= opt.lost)
			return 1;
	}
	return 0;
}

// bisect finds about how much is taken without losses.
static double bisect(void) {
	struct result flood = offer(0, opt.probe);
	double high = (double)flood.sent / flood.sending, low = high / 64;
	if (lost_part(&flood) <= opt.lost)
		return high;
	double delivered = (double)flood.received / flood.seconds;
	if (delivered > 2 * low)
		low = delivered / 2;
	for (int i = 0; i < BISECTIONS; i++) {
		double middle = (low + high) / 2;
		if (clean(middle))
			low = middle;
		else
			high = middle;
	}
	return low;
}

// windows measures at the rate and says whether all but the allowed ones were clean.
static int windows(double rate) {
	uint64_t received = 0, out = 0;
	double sending = 0;
	meter.windows = meter.spoiled = 0;
	meter_turn(&meter, now_ns()); // the span begins
	meter.next = UINT64_MAX;      // and ends with the last window, not by the clock
	for (int i = 0; i < opt.windows; i++) {
		struct result r = offer(rate, opt.window);
		if (lost_part(&r) > opt.lost)
			meter.spoiled++;
		meter.rates[meter.windows++] = (double)r.received / r.seconds;
		received += r.received;
		out += r.sent;
		sending += r.sending;
	}
	meter_turn(&meter, now_ns());
	meter.n = received;
	meter.offered = (double)out / sending;
	return meter.spoiled <= (unsigned)opt.spoiled;
}

// again makes the meter ready for another span, which windows begins.
static void again(void) {
	meter.finished = 0;
	meter.next = UINT64_MAX;
}

static void parse(int argc, char **argv) {
	static const struct option known[] = {{"iface", 1, 0, 'i'}, {"addr", 1, 0, 'a'}, {"peer", 1, 0, 'A'}, {"port", 1, 0, 'P'},
		{"peer-mac", 1, 0, 'M'}, {"groups", 1, 0, 'g'}, {"base", 1, 0, 'b'}, {"size", 1, 0, 'S'}, {"windows", 1, 0, 'n'},
		{"window-s", 1, 0, 's'}, {"probe-s", 1, 0, 'r'}, {"spoiled", 1, 0, 'k'}, {"lost", 1, 0, 'l'}, {"server-pid", 1, 0, 'p'},
		{"server-cpu", 1, 0, 'u'}, {0}};
	int c;
	opt.addr.sin_family = opt.peer.sin_family = AF_INET;
	while ((c = getopt_long_only(argc, argv, "", known, NULL)) != -1) {
		switch (c) {
		case 'i': opt.iface = optarg; break;
		case 'a':
		case 'A':
			if (inet_pton(AF_INET, optarg, c == 'a' ? &opt.addr.sin_addr : &opt.peer.sin_addr) != 1)
				die(0, "-%s %s: want an IPv4 address", c == 'a' ? "addr" : "peer", optarg);
			break;
		case 'P': opt.peer.sin_port = htons((uint16_t)number("port", optarg, 1, 65535)); break;
		case 'M': mac_of("peer-mac", optarg, opt.peer_mac); break;
		case 'g': opt.groups = (int)number("groups", optarg, 0, 254); break;
		case 'b': opt.base = optarg; break;
		case 'S': opt.size = (int)number("size", optarg, MESSAGE_SIZE, LONGEST); break;
		case 'n': opt.windows = (int)number("windows", optarg, 1, 1000); break;
		case 's': opt.window = number("window-s", optarg, 0.005, 60); break;
		case 'r': opt.probe = number("probe-s", optarg, 0.005, 60); break;
		case 'k': opt.spoiled = (int)number("spoiled", optarg, 0, 1000); break;
		case 'l': opt.lost = number("lost", optarg, 0, 1); break;
		case 'p': opt.server_pid = (int)number("server-pid", optarg, 1, 1 << 30); break;
		case 'u': opt.server_cpu = (int)number("server-cpu", optarg, 0, CPU_SETSIZE - 1); break;
		default: exit(2);
		}
	}
	if (optind < argc)
		die(0, "unexpected argument %s", argv[optind]);
	if (!*opt.iface || opt.addr.sin_addr.s_addr == 0 || opt.peer.sin_addr.s_addr == 0 || opt.peer.sin_port == 0)
		die(0, "-iface, -addr, -peer and -port are needed");
}

int main(int argc, char **argv) {
	parse(argc, argv);
	alarm((unsigned)((opt.window + 0.1) * opt.windows * TRIES + opt.probe * (2 * BISECTIONS + 1)) + 60);
	control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	socklen_t size = sizeof opt.addr;
	if (control < 0 || bind(control, (struct sockaddr *)&opt.addr, size) != 0 ||
		getsockname(control, (struct sockaddr *)&opt.addr, &size) != 0 ||
		connect(control, (struct sockaddr *)&opt.peer, sizeof opt.peer) != 0)
		die(errno, "socket to the server");
	struct sockaddr_in to = opt.peer;
	unsigned char mac[6] = {0x01, 0x00, 0x5e}, from_mac[6] = {2, 0, 0, 0, 0, 0xfe};
	if (opt.groups > 0) {
		if (inet_pton(AF_INET, opt.base, &to.sin_addr) != 1)
			die(0, "-base %s: want an IPv4 address", opt.base);
		memcpy(mac + 3, (unsigned char *)&to.sin_addr + 1, 3); // RFC 1112 section 6.4
		mac[3] &= 0x7f;
	}
	frame_headers(frame, opt.groups > 0 ? mac : opt.peer_mac, from_mac, &opt.addr, &to, opt.size);
	message_make((struct message *)(void *)(frame + FRAME_HEADERS), MESSAGE_DATA, 0, 0);
	load_program(interface_index(opt.iface));

	meter.counts_itself = 1;
	uint64_t before = count_now().received; // 0 on a fresh server
	meter_start(&meter, 0, opt.window * opt.windows, opt.server_pid, opt.server_cpu);
	again();
	double rate = bisect();
	for (int i = 0; !windows(rate) && i < TRIES; i++, rate *= i < TRIES / 2 ? 0.97 : 0.8)
		again();
	struct message last = count_now();
	meter.sent = sent;
	meter.lost = sent > last.received - before ? sent - (last.received - before) : 0;
	meter.duplicated = last.received - before > sent ? last.received - before - sent : 0;
	meter.out_of_order = last.behind;
	meter_print(&meter, "flood");
	return 0;
}
