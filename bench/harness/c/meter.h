// What the client measures while it runs: latencies, rates by window, integrity of the messages, the time the host took
// away from it, and the CPU time the server used in exactly the measured span.
#ifndef BENCH_METER_H
#define BENCH_METER_H

#include "histogram.h"
#include "message.h"

#include <unistd.h>

// A spinning client reads the clock at least every few microseconds. Two readings further apart than this mean that the
// host ran something else: the same loop is the gap spinner.
enum { GAP_NS = 100000 };
enum { WINDOWS_MAX = 4096 };

// memory is what a server's process and the whole kernel hold, in bytes.
struct memory {
	uint64_t resident; // of the server, counted exactly
	uint64_t slab;     // of the kernel: sockets, files, ring and epoll entries of everybody
};

struct meter {
	// The span: warm-up until begin, then measured until end. next is the moment the phase changes.
	uint64_t next, begin, end, warmup, length;
	int measuring, finished;
	int counts_itself; // the mode fills n and the windows (oneway), or has none (idle)

	uint64_t last, gaps; // last clock reading; nanoseconds lost in gaps within the span

	struct histogram latency;
	uint64_t n; // answered (closed loop) or received (one-way) within the span

	uint64_t window, window_end, in_window; // length, end of the current one, answers in it
	double rates[WINDOWS_MAX];
	unsigned windows;

	// Integrity, over the whole run, warm-up included.
	uint64_t sent, lost, duplicated, out_of_order, corrupt, timeouts;

	int have_server, server_on; // server_on: its CPU, -1 when it is not bound to one
	clockid_t server_clock;
	double foreign, busy_begin; // seconds the server's CPU worked for others
	int idle; // idle connections, opened between before and with
	double offered;    // flood: messages per second that were sent when rates was measured; 0 elsewhere
	unsigned spoiled;  // flood: windows that lost more than they may
	struct memory before, with;

	double server_cpu, server_cpu_begin, client_cpu, client_cpu_begin;
};

static inline double clock_seconds(clockid_t id, const char *what) {
	struct timespec ts;
	if (clock_gettime(id, &ts) != 0)
		die(errno, "CPU clock of the %s", what);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

// busy_seconds is how long one CPU has been doing anything at all, for anybody (user, nice, system, irq, softirq, steal).
// What it did beyond the server's own time was taken away from the server, which no clock in the client can see.
static double busy_seconds(int cpu) {
	FILE *f = fopen("/proc/stat", "r");
	if (!f)
		die(errno, "/proc/stat");
	char name[32], line[512];
	snprintf(name, sizeof name, "cpu%d ", cpu);
	while (fgets(line, sizeof line, f)) {
		if (strncmp(line, name, strlen(name)) != 0)
			continue;
		unsigned long long v[8] = {0};
		sscanf(line + strlen(name), "%llu %llu %llu %llu %llu %llu %llu %llu", v, v + 1, v + 2, v + 3, v + 4, v + 5, v + 6,
			v + 7);
		fclose(f);
		return (double)(v[0] + v[1] + v[2] + v[5] + v[6] + v[7]) / (double)sysconf(_SC_CLK_TCK);
	}
	die(0, "-server-cpu %d: not in /proc/stat", cpu);
}

// proc_bytes reads one "Name:   123 kB" line of a file in /proc.
static inline uint64_t proc_bytes(const char *path, const char *name) {
	FILE *f = fopen(path, "r");
	if (!f)
		die(errno, "%s", path);
	char line[256];
	unsigned long long kib;
	while (fgets(line, sizeof line, f)) {
		if (strncmp(line, name, strlen(name)) != 0 || sscanf(line + strlen(name), ": %llu kB", &kib) != 1)
			continue;
		fclose(f);
		return (uint64_t)kib << 10;
	}
	die(0, "%s has no line %s", path, name);
}

// meter_memory looks at the memory. VmRSS in /proc/PID/status is an estimate on kernels since 6.2; smaps_rollup counts.
static inline void meter_memory(struct memory *m, int server_pid) {
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/smaps_rollup", server_pid);
	m->resident = proc_bytes(path, "Rss");
	m->slab = proc_bytes("/proc/meminfo", "Slab");
}

// meter_start begins the warm-up. Windows are one second long, or 100 ms when the span is shorter than one second.
static void meter_start(struct meter *m, double warmup, double seconds, int server_pid, int server_cpu) {
	m->warmup = (uint64_t)(warmup * 1e9);
	m->length = (uint64_t)(seconds * 1e9);
	m->window = seconds < 1 ? 100000000ull : 1000000000ull;
	if (server_pid > 0) {
		// The kernel's own count in nanoseconds; /proc/PID/stat has the same number in steps of 10 ms.
		int err = clock_getcpuclockid(server_pid, &m->server_clock);
		if (err)
			die(err, "-server-pid %d", server_pid);
		m->have_server = 1;
		m->server_on = server_cpu;
	}
	m->last = now_ns();
	m->next = m->last + m->warmup;
}

// meter_windows closes the windows that ended before t.
static inline void meter_windows(struct meter *m, uint64_t t) {
	while (__builtin_expect(t >= m->window_end, 0)) {
		if (m->windows < WINDOWS_MAX)
			m->rates[m->windows++] = (double)m->in_window * 1e9 / (double)m->window;
		m->in_window = 0;
		m->window_end += m->window;
	}
}

// meter_turn changes the phase: warm-up to measuring, measuring to finished.
static void __attribute__((noinline)) meter_turn(struct meter *m, uint64_t t) {
	if (m->measuring) {
		if (!m->counts_itself)
			meter_windows(m, m->next);
		m->end = t;
		m->measuring = 0;
		m->finished = 1;
		m->next = UINT64_MAX;
		m->client_cpu = clock_seconds(CLOCK_PROCESS_CPUTIME_ID, "client") - m->client_cpu_begin;
		if (m->have_server) {
			m->server_cpu = clock_seconds(m->server_clock, "server") - m->server_cpu_begin;
			if (m->server_on >= 0)
				m->foreign = busy_seconds(m->server_on) - m->busy_begin - m->server_cpu;
		}
		return;
	}
	m->measuring = 1;
	m->client_cpu_begin = clock_seconds(CLOCK_PROCESS_CPUTIME_ID, "client");
	if (m->have_server) {
		if (m->server_on >= 0)
			m->busy_begin = busy_seconds(m->server_on);
		m->server_cpu_begin = clock_seconds(m->server_clock, "server");
	}
	m->begin = m->last = now_ns();
	m->next = m->begin + m->length;
	m->window_end = m->begin + m->window;
	m->gaps = 0;
	histogram_reset(&m->latency);
}

// meter_tick reads the clock, notices gaps and changes the phase when it is due.
static inline uint64_t meter_tick(struct meter *m) {
	uint64_t t = now_ns();
	if (__builtin_expect(t - m->last > GAP_NS, 0) && m->measuring)
		m->gaps += t - m->last;
	m->last = t;
	if (__builtin_expect(t >= m->next, 0))
		meter_turn(m, t);
	return t;
}

// meter_answer records one request answered at t.
static inline void meter_answer(struct meter *m, uint64_t sent_at, uint64_t t) {
	if (!m->measuring)
		return;
	meter_windows(m, t);
	histogram_add(&m->latency, t - sent_at);
	m->n++;
	m->in_window++;
}

static int compare_doubles(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

// meter_print writes the one line of JSON the harness reads.
static void meter_print(struct meter *m, const char *mode) {
	double seconds = (double)(m->end - m->begin) / 1e9;
	printf("{\"mode\":\"%s\",\"seconds\":%.6f,\"n\":%llu", mode, seconds, (unsigned long long)m->n);
	if (m->latency.n) {
		static const struct { const char *name; double p; } points[] = {{"p10", 10}, {"p25", 25}, {"p50", 50},
			{"p75", 75}, {"p90", 90}, {"p99", 99}, {"p999", 99.9}};
		for (unsigned i = 0; i < sizeof points / sizeof points[0]; i++)
			printf(",\"%s\":%llu", points[i].name, (unsigned long long)histogram_at(&m->latency, points[i].p));
		printf(",\"max\":%llu", (unsigned long long)m->latency.max);
	}
	printf(",\"rate\":%.3f", seconds > 0 ? (double)m->n / seconds : 0);
	if (m->windows) {
		qsort(m->rates, m->windows, sizeof m->rates[0], compare_doubles);
		double median = m->rates[m->windows / 2];
		if (m->windows % 2 == 0)
			median = (median + m->rates[m->windows / 2 - 1]) / 2;
		printf(",\"window_ms\":%llu,\"windows\":%u,\"best_window_rate\":%.3f,\"median_window_rate\":%.3f",
			(unsigned long long)(m->window / 1000000), m->windows, m->rates[m->windows - 1], median);
	}
	printf(",\"sent\":%llu,\"lost\":%llu,\"duplicated\":%llu,\"out_of_order\":%llu,\"corrupt\":%llu,\"timeouts\":%llu",
		(unsigned long long)m->sent, (unsigned long long)m->lost, (unsigned long long)m->duplicated,
		(unsigned long long)m->out_of_order, (unsigned long long)m->corrupt, (unsigned long long)m->timeouts);
	printf(",\"host_lost_fraction\":%.6f", seconds > 0 ? (double)m->gaps / 1e9 / seconds : 0);
	if (m->have_server)
		printf(",\"server_cpu_seconds\":%.9f", m->server_cpu);
	// Counted in steps of 10 ms, so a little less than nothing is possible.
	if (m->have_server && m->server_on >= 0)
		printf(",\"foreign_fraction\":%.6f", seconds > 0 && m->foreign > 0 ? m->foreign / seconds : 0);
	if (m->offered > 0)
		printf(",\"offered\":%.3f,\"spoiled_windows\":%u", m->offered, m->spoiled);
	if (m->idle)
		printf(",\"idle\":%d,\"rss_before_idle\":%llu,\"rss_with_idle\":%llu,\"slab_before_idle\":%llu,\"slab_with_idle\":%llu",
			m->idle, (unsigned long long)m->before.resident, (unsigned long long)m->with.resident,
			(unsigned long long)m->before.slab, (unsigned long long)m->with.slab);
	printf(",\"client_cpu_seconds\":%.9f}\n", m->client_cpu);
}

#endif
