// The raw floor under an offloaded ring: AF_XDP by hand, without a stack. It answers or asks on one UDP port with frames that are turned
// around or written beforehand; nothing is verified, routed or resolved.
//
//   xdp -mode echo|count  -iface IF -addr A [-fill N] [-native] [ignored: -proto udp -role R -rest spin]
//   xdp -mode pingpong    -iface IF -addr A -peer A -port P -peer-mac M [-window N] [-seconds S] [-warmup S] [-server-pid PID]
//                         [-server-cpu C] [-fill N] [-native]
//
//   echo      returns every datagram to the port
//   count     counts messages and answers queries, as message.h says
//   pingpong  the load generator: one flow with N requests outstanding; prints one line of JSON, as client.c does
//
// A kernel socket reserves the port. Servers print "ready PORT", serve until SIGTERM and exit 0. Every loop spins.
#define _GNU_SOURCE
#include "window.h"
#include "xsk.h"

#include <getopt.h>
#include <signal.h>
#include <sys/ioctl.h>

enum { SILENCE_SECONDS = 5, ANSWER_TIMEOUT_NS = 2000000000, BURST = 64 };

static struct options {
	const char *mode, *iface;
	struct sockaddr_in addr, peer;
	unsigned char peer_mac[6];
	int native, window, server_pid, server_cpu;
	uint32_t fill;
	double seconds, warmup;
} opt = {.mode = "echo", .iface = "", .window = 1, .server_cpu = -1, .fill = 2048, .seconds = 1, .warmup = 0.1};

static struct xsk x;
static struct meter meter = {.next = UINT64_MAX}; // no phase begins before meter_start
static struct window window;
static volatile sig_atomic_t stopping;

static void stop(int signal) {
	(void)signal;
	stopping = 1;
}

static uint16_t reserve_port(void) {
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	socklen_t size = sizeof opt.addr;
	if (fd < 0 || bind(fd, (struct sockaddr *)&opt.addr, size) != 0 || getsockname(fd, (struct sockaddr *)&opt.addr, &size) != 0)
		die(errno, "reserve a port of %s", inet_ntoa(opt.addr.sin_addr));
	return ntohs(opt.addr.sin_port);
}

static void mac_of_interface(unsigned char mac[6]) {
	struct ifreq ask = {0};
	strncpy(ask.ifr_name, opt.iface, IFNAMSIZ - 1);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || ioctl(fd, SIOCGIFHWADDR, &ask) != 0)
		die(errno, "Ethernet address of %s", opt.iface);
	close(fd);
	memcpy(mac, ask.ifr_hwaddr.sa_data, 6);
}

// --- Servers ----------------------------------------------------------------------------------------------------------

// serve takes bursts of frames and sends back those that are to be answered.
static void serve(int count) {
	struct tally tally = {0};
	while (!stopping) {
		xsk_refill(&x);
		uint32_t n = xsk_ready(&x), sent = 0;
		if (n == 0) {
			xsk_reap(&x);
			continue;
		}
		if (n > BURST)
			n = BURST;
		for (uint32_t i = 0; i < n; i++) {
			struct xdp_desc *d = xsk_next(&x);
			unsigned char *frame = x.memory + d->addr;
			struct message *m = (struct message *)(void *)(frame + FRAME_HEADERS);
			if (count && (d->len < FRAME_HEADERS + MESSAGE_SIZE || !tally_take(&tally, m))) {
				xsk_keep(&x, d->addr);
				continue;
			}
			frame_turn(frame);
			xsk_send(&x, d->addr, d->len);
			sent++;
		}
		xsk_taken(&x);
		if (sent > 0)
			xsk_flush(&x);
		xsk_reap(&x);
	}
}

// --- The load generator -----------------------------------------------------------------------------------------------

static unsigned char template[FRAME_HEADERS];

static int request(uint64_t now) {
	if (x.have == 0)
		return 0;
	uint64_t addr = x.free[--x.have];
	memcpy(x.memory + addr, template, FRAME_HEADERS);
	window_request(&window, &meter, (struct message *)(void *)(x.memory + addr + FRAME_HEADERS), now);
	xsk_send(&x, addr, FRAME_HEADERS + MESSAGE_SIZE);
	return 1;
}

// answers takes what has come.
static int answers(void) {
	uint32_t n = xsk_ready(&x), good = 0;
	if (n == 0)
		return 0;
	uint64_t now = meter_tick(&meter);
	for (uint32_t i = 0; i < n; i++) {
		struct xdp_desc *d = xsk_next(&x);
		if (d->len != FRAME_HEADERS + MESSAGE_SIZE)
			meter.corrupt++;
		else
			good += (uint32_t)window_answer(&window, &meter, (struct message *)(void *)(x.memory + d->addr + FRAME_HEADERS), now);
		xsk_keep(&x, d->addr);
	}
	xsk_taken(&x);
	return (int)good;
}

// run keeps the window full until the span is over and everything is answered or given up.
static void run(void) {
	uint64_t answered_at = now_ns(), moved_at = answered_at;
	for (;;) {
		uint64_t now = meter_tick(&meter);
		if (meter.finished && window.outstanding == 0)
			return;
		int queued = 0, got;
		while (!meter.finished && window.outstanding < opt.window && request(now))
			queued = 1;
		if (queued)
			xsk_flush(&x);
		xsk_reap(&x);
		xsk_refill(&x);
		while (!(got = answers())) {
			now = meter_tick(&meter);
			if (now - moved_at <= ANSWER_TIMEOUT_NS)
				continue;
			if (now - answered_at > SILENCE_SECONDS * 1000000000ull)
				die(0, "no answer for %d s", SILENCE_SECONDS);
			window_abandon(&window, &meter);
			moved_at = now;
			break;
		}
		if (got > 0)
			answered_at = moved_at = meter.last;
	}
}

// --- Command line -----------------------------------------------------------------------------------------------------

static void address(const char *name, const char *text, struct sockaddr_in *a) {
	a->sin_family = AF_INET;
	if (inet_pton(AF_INET, text, &a->sin_addr) != 1)
		die(0, "-%s %s: want an IPv4 address", name, text);
}

static int client(void) { return strcmp(opt.mode, "pingpong") == 0; }

static void parse(int argc, char **argv) {
	static const struct option known[] = {{"mode", 1, 0, 'm'}, {"iface", 1, 0, 'i'}, {"addr", 1, 0, 'a'}, {"peer", 1, 0, 'A'},
		{"port", 1, 0, 'P'}, {"peer-mac", 1, 0, 'M'}, {"window", 1, 0, 'W'}, {"native", 0, 0, 'n'}, {"fill", 1, 0, 'f'},
		{"seconds", 1, 0, 's'}, {"warmup", 1, 0, 'w'}, {"server-pid", 1, 0, 'p'}, {"server-cpu", 1, 0, 'u'}, {0}};
	int c;
	while ((c = getopt_long_only(argc, argv, "", known, NULL)) != -1) {
		switch (c) {
		case 'm': opt.mode = optarg; break;
		case 'i': opt.iface = optarg; break;
		case 'a': address("addr", optarg, &opt.addr); break;
		case 'A': address("peer", optarg, &opt.peer); break;
		case 'P': opt.peer.sin_port = htons((uint16_t)number("port", optarg, 1, 65535)); break;
		case 'M': mac_of("peer-mac", optarg, opt.peer_mac); break;
		case 'W': opt.window = (int)number("window", optarg, 1, WINDOW_MAX); break;
		case 'n': opt.native = 1; break;
		case 'f': opt.fill = (uint32_t)number("fill", optarg, 8, XSK_RING); break;
		case 's': opt.seconds = number("seconds", optarg, 0.01, 3600); break;
		case 'w': opt.warmup = number("warmup", optarg, 0, 60); break;
		case 'p': opt.server_pid = (int)number("server-pid", optarg, 1, 1 << 30); break;
		case 'u': opt.server_cpu = (int)number("server-cpu", optarg, 0, CPU_SETSIZE - 1); break;
		default: exit(2);
		}
	}
	if (optind < argc)
		die(0, "unexpected argument %s", argv[optind]);
	if (!client() && strcmp(opt.mode, "echo") != 0 && strcmp(opt.mode, "count") != 0)
		die(0, "-mode %s: want echo, count or pingpong", opt.mode);
	if (!*opt.iface || opt.addr.sin_addr.s_addr == 0)
		die(0, "-iface and -addr are needed");
	if (client() && (opt.peer.sin_port == 0 || opt.peer.sin_addr.s_addr == 0))
		die(0, "-mode pingpong: needs -peer and -port");
}

int main(int argc, char **argv) {
	parse(argc, argv);
	struct sigaction term = {.sa_handler = stop};
	sigaction(SIGTERM, &term, NULL);
	unsigned ifindex = interface_index(opt.iface);
	uint16_t port = reserve_port();
	xsk_open(&x, ifindex, opt.fill);
	xsk_refill(&x); // before the first frame is steered here
	xsk_steer(&x, ifindex, port, opt.native);
	if (!client()) {
		printf("ready %d\n", port);
		fflush(stdout);
		serve(strcmp(opt.mode, "count") == 0);
		return 0;
	}
	alarm((unsigned)(opt.seconds + opt.warmup) + 60); // whatever goes wrong
	unsigned char mac[6];
	mac_of_interface(mac);
	frame_headers(template, opt.peer_mac, mac, &opt.addr, &opt.peer, MESSAGE_SIZE);
	meter_start(&meter, opt.warmup, opt.seconds, opt.server_pid, opt.server_cpu);
	run();
	meter_print(&meter, "pingpong");
	return 0;
}
