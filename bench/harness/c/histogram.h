// A fixed log-linear histogram of nanoseconds: exact below 2,048, then 1,024 bins per power of two (an error of at most
// 0.1 %), up to 2^40 ns. Recording is a shift and an increment; nothing is thrown away and nothing grows.
#ifndef BENCH_HISTOGRAM_H
#define BENCH_HISTOGRAM_H

#include <stdint.h>
#include <string.h>

enum { HISTOGRAM_SUB = 1024, HISTOGRAM_TOP = 40 };
enum { HISTOGRAM_BINS = (HISTOGRAM_TOP - 9) * HISTOGRAM_SUB + HISTOGRAM_SUB };

struct histogram {
	uint64_t n, max;
	uint64_t bins[HISTOGRAM_BINS];
};

static inline void histogram_reset(struct histogram *h) { memset(h, 0, sizeof *h); }

static inline unsigned histogram_bin(uint64_t v) {
	if (v >= (1ull << HISTOGRAM_TOP))
		v = (1ull << HISTOGRAM_TOP) - 1;
	if (v < 2 * HISTOGRAM_SUB)
		return (unsigned)v;
	unsigned shift = (63 - (unsigned)__builtin_clzll(v)) - 10;
	return shift * HISTOGRAM_SUB + (unsigned)(v >> shift);
}

// histogram_value is the middle of a bin.
static inline uint64_t histogram_value(unsigned bin) {
	if (bin < 2 * HISTOGRAM_SUB)
		return bin;
	unsigned shift = bin / HISTOGRAM_SUB - 1;
	uint64_t low = (uint64_t)(bin - shift * HISTOGRAM_SUB) << shift;
	return low + (1ull << shift) / 2;
}

static inline void histogram_add(struct histogram *h, uint64_t v) {
	h->bins[histogram_bin(v)]++;
	h->n++;
	if (v > h->max)
		h->max = v;
}

// histogram_at returns the nearest-rank percentile (0 < p <= 100), 0 when nothing was recorded. The middle of the last
// bin may lie above the largest value seen, hence the cap.
static inline uint64_t histogram_at(const struct histogram *h, double p) {
	uint64_t rank = (uint64_t)(p / 100 * (double)h->n + 0.999999999), seen = 0;
	if (rank == 0)
		rank = 1;
	for (unsigned i = 0; i < HISTOGRAM_BINS; i++) {
		seen += h->bins[i];
		if (seen >= rank) {
			uint64_t v = histogram_value(i);
			return v < h->max ? v : h->max;
		}
	}
	return h->max;
}

#endif
