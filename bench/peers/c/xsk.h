// An AF_XDP socket by system calls alone (Documentation/networking/af_xdp.rst, linux/if_xdp.h): memory, four rings, bind, and a program
// that redirects one UDP port to it. Copy mode, because that is what a veth has.
#ifndef BENCH_XSK_H
#define BENCH_XSK_H

#include "bpf.h"
#include "frame.h"

#include <linux/if_xdp.h>
#include <sys/mman.h>

enum { XSK_FRAME = 2048, XSK_FRAMES = 4096, XSK_RING = 2048 };

// xsk_ring is one of the four. Ours are the producers of fill and transmit and the consumers of receive and completion.
struct xsk_ring {
	uint32_t *producer, *consumer, *flags;
	void *entries;
	uint32_t at;    // our index, published by xsk_publish
	uint32_t other; // the kernel's, as read last
};

struct xsk {
	int fd;
	unsigned char *memory;
	struct xsk_ring fill, completion, receive, transmit;
	uint64_t free[XSK_FRAMES]; // a stack: the frame used last is the hottest
	int have;                  // in free
	uint32_t posted, limit;    // frames that lie in the fill ring, and how many should
	uint64_t kicks;
};

static inline void *xsk_map(int fd, size_t bytes, uint64_t page, const char *what) {
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, (off_t)page);
	if (p == MAP_FAILED)
		die(errno, "AF_XDP: map the %s ring", what);
	return p;
}

static inline void xsk_option(int fd, int option, const void *value, socklen_t size, const char *what) {
	if (setsockopt(fd, SOL_XDP, option, value, size) != 0)
		die(errno, "AF_XDP: %s", what);
}

static inline void xsk_ring_at(struct xsk_ring *r, void *base, const struct xdp_ring_offset *off) {
	r->producer = (uint32_t *)((char *)base + off->producer);
	r->consumer = (uint32_t *)((char *)base + off->consumer);
	r->flags = (uint32_t *)((char *)base + off->flags);
	r->entries = (char *)base + off->desc;
}

// xsk_open makes a socket on queue 0 of the interface; fill is how many frames lie ready.
static inline void xsk_open(struct xsk *x, unsigned ifindex, uint32_t fill) {
	x->fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (x->fd < 0)
		die(errno, "socket(AF_XDP)");
	x->memory = mmap(NULL, (size_t)XSK_FRAME * XSK_FRAMES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (x->memory == MAP_FAILED)
		die(errno, "AF_XDP: memory");
	struct xdp_umem_reg reg = {.addr = (uint64_t)(uintptr_t)x->memory, .len = (uint64_t)XSK_FRAME * XSK_FRAMES, .chunk_size = XSK_FRAME};
	xsk_option(x->fd, XDP_UMEM_REG, &reg, sizeof reg, "register memory");
	int entries = XSK_RING;
	xsk_option(x->fd, XDP_UMEM_FILL_RING, &entries, sizeof entries, "fill ring");
	xsk_option(x->fd, XDP_UMEM_COMPLETION_RING, &entries, sizeof entries, "completion ring");
	xsk_option(x->fd, XDP_RX_RING, &entries, sizeof entries, "receive ring");
	xsk_option(x->fd, XDP_TX_RING, &entries, sizeof entries, "transmit ring");
	struct xdp_mmap_offsets off;
	socklen_t size = sizeof off;
	if (getsockopt(x->fd, SOL_XDP, XDP_MMAP_OFFSETS, &off, &size) != 0 || size != sizeof off)
		die(errno, "AF_XDP: layout of the rings");
	const size_t n = XSK_RING, desc = sizeof(struct xdp_desc);
	xsk_ring_at(&x->receive, xsk_map(x->fd, off.rx.desc + n * desc, XDP_PGOFF_RX_RING, "receive"), &off.rx);
	xsk_ring_at(&x->transmit, xsk_map(x->fd, off.tx.desc + n * desc, XDP_PGOFF_TX_RING, "transmit"), &off.tx);
	xsk_ring_at(&x->fill, xsk_map(x->fd, off.fr.desc + n * 8, XDP_UMEM_PGOFF_FILL_RING, "fill"), &off.fr);
	xsk_ring_at(&x->completion, xsk_map(x->fd, off.cr.desc + n * 8, XDP_UMEM_PGOFF_COMPLETION_RING, "completion"), &off.cr);
	x->limit = fill;
	for (int i = XSK_FRAMES - 1; i >= 0; i--)
		x->free[x->have++] = (uint64_t)i * XSK_FRAME;
	struct sockaddr_xdp addr = {.sxdp_family = AF_XDP, .sxdp_ifindex = ifindex, .sxdp_flags = XDP_COPY | XDP_USE_NEED_WAKEUP};
	for (uint64_t end = now_ns() + 1000000000ull; bind(x->fd, (struct sockaddr *)&addr, sizeof addr) != 0; usleep(2000))
		if (errno != EBUSY || now_ns() > end) // the socket of a process that has just ended
			die(errno, "AF_XDP: bind to interface %u", ifindex);
}

static inline void xsk_publish(uint32_t *at, uint32_t value) { __atomic_store_n(at, value, __ATOMIC_RELEASE); }

// xsk_refill gives the kernel frames, in batches.
static inline void xsk_refill(struct xsk *x) {
	uint32_t missing = x->limit - x->posted;
	if (missing < x->limit / 8)
		return;
	uint64_t *entries = x->fill.entries;
	for (; missing > 0 && x->have > 0; missing--, x->posted++)
		entries[x->fill.at++ & (XSK_RING - 1)] = x->free[--x->have];
	xsk_publish(x->fill.producer, x->fill.at);
}

// xsk_ready is how many frames wait.
static inline uint32_t xsk_ready(struct xsk *x) {
	if (x->receive.other == x->receive.at)
		x->receive.other = __atomic_load_n(x->receive.producer, __ATOMIC_ACQUIRE);
	return x->receive.other - x->receive.at;
}

static inline struct xdp_desc *xsk_next(struct xsk *x) {
	x->posted--;
	return (struct xdp_desc *)x->receive.entries + (x->receive.at++ & (XSK_RING - 1));
}

static inline void xsk_taken(struct xsk *x) { xsk_publish(x->receive.consumer, x->receive.at); }

// xsk_keep puts a frame back; addr may lie inside it.
static inline void xsk_keep(struct xsk *x, uint64_t addr) { x->free[x->have++] = addr & ~(uint64_t)(XSK_FRAME - 1); }

// xsk_reap takes back what was sent.
static inline void xsk_reap(struct xsk *x) {
	const uint64_t *entries = x->completion.entries;
	uint32_t end = __atomic_load_n(x->completion.producer, __ATOMIC_ACQUIRE);
	if (end == x->completion.at)
		return;
	while (x->completion.at != end)
		xsk_keep(x, entries[x->completion.at++ & (XSK_RING - 1)]);
	xsk_publish(x->completion.consumer, end);
}

// xsk_send queues a frame. The ring has room: at most XSK_RING frames are ever in use for sending, because the fill ring has the others.
static inline void xsk_send(struct xsk *x, uint64_t addr, uint32_t length) {
	struct xdp_desc *d = (struct xdp_desc *)x->transmit.entries + (x->transmit.at++ & (XSK_RING - 1));
	d->addr = addr;
	d->len = length;
	d->options = 0;
}

// xsk_flush shows the kernel what was queued and makes it send: 32 frames a call.
static inline void xsk_flush(struct xsk *x) {
	xsk_publish(x->transmit.producer, x->transmit.at);
	for (uint32_t left = x->transmit.at - __atomic_load_n(x->transmit.consumer, __ATOMIC_ACQUIRE); left > 0;) {
		x->kicks++;
		if (sendto(x->fd, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 && !would_block(errno) && errno != EBUSY && errno != ENOBUFS)
			die(errno, "AF_XDP: send");
		uint32_t now = x->transmit.at - __atomic_load_n(x->transmit.consumer, __ATOMIC_ACQUIRE);
		if (now == left)
			break; // the rest goes with the next flush
		left = now;
	}
}

// xsk_steer puts a program on the interface that redirects UDP datagrams to the port, of IPv4 without options, to the socket. What is not
// that stays the kernel's.
static inline void xsk_steer(struct xsk *x, unsigned ifindex, uint16_t port, int native) {
	int sockets = bpf_map(BPF_MAP_TYPE_XSKMAP, 4, 1, 0);
	uint32_t fd = (uint32_t)x->fd;
	bpf_map_set(sockets, 0, &fd);
	enum { PASS = 20 };
	const struct bpf_insn code[] = {
		/* 0 */ MOV_REG(6, 1),
		LOAD(BPF_W, 7, 1, offsetof(struct xdp_md, data)),
		LOAD(BPF_W, 8, 1, offsetof(struct xdp_md, data_end)),
		MOV_REG(2, 7),
		ALU_IMM(BPF_ADD, 2, FRAME_HEADERS),
		/* 5 */ JUMP_REG(BPF_JGT, 2, 8, PASS - 6),
		LOAD(BPF_H, 3, 7, AT_TYPE),
		JUMP_IMM(BPF_JNE, 3, htons(0x0800), PASS - 8),
		LOAD(BPF_B, 3, 7, AT_IP),
		JUMP_IMM(BPF_JNE, 3, 0x45, PASS - 10),
		/* 10 */ LOAD(BPF_B, 3, 7, AT_PROTOCOL),
		JUMP_IMM(BPF_JNE, 3, IPPROTO_UDP, PASS - 12),
		LOAD(BPF_H, 3, 7, AT_DPORT),
		JUMP_IMM(BPF_JNE, 3, htons(port), PASS - 14),
		/* 14 */ LOAD_MAP(1, sockets),
		/* 16 */ LOAD(BPF_W, 2, 6, offsetof(struct xdp_md, rx_queue_index)),
		MOV_IMM(3, XDP_PASS),
		CALL(BPF_FUNC_redirect_map),
		EXIT(),
		/* 20 */ MOV_IMM(0, XDP_PASS),
		EXIT(),
	};
	bpf_attach(bpf_program(code, sizeof code / sizeof code[0]), ifindex, native);
}

#endif
