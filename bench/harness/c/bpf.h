// The few calls of bpf(2) that the benchmark needs, without a library: maps, hand-assembled XDP programs, and the link that holds a
// program on an interface. The link is a descriptor: when the process ends, in whatever way, the program goes with it.
#ifndef BENCH_BPF_H
#define BENCH_BPF_H

#include "message.h"

#include <linux/bpf.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

// Instructions, by the names the kernel's documentation gives them (Documentation/bpf/standardization/instruction-set.rst).
#define INSN(code_, dst_, src_, off_, imm_) \
	((struct bpf_insn){.code = (code_), .dst_reg = (dst_), .src_reg = (src_), .off = (off_), .imm = (imm_)})
#define MOV_REG(dst, src) INSN(BPF_ALU64 | BPF_MOV | BPF_X, dst, src, 0, 0)
#define MOV_IMM(dst, imm) INSN(BPF_ALU64 | BPF_MOV | BPF_K, dst, 0, 0, imm)
#define ALU_REG(op, dst, src) INSN(BPF_ALU64 | (op) | BPF_X, dst, src, 0, 0)
#define ALU_IMM(op, dst, imm) INSN(BPF_ALU64 | (op) | BPF_K, dst, 0, 0, imm)
#define LOAD(size, dst, src, off) INSN(BPF_LDX | (size) | BPF_MEM, dst, src, off, 0)
#define STORE(size, dst, off, src) INSN(BPF_STX | (size) | BPF_MEM, dst, src, off, 0)
#define JUMP_REG(op, dst, src, off) INSN(BPF_JMP | (op) | BPF_X, dst, src, off, 0)
#define JUMP_IMM(op, dst, imm, off) INSN(BPF_JMP | (op) | BPF_K, dst, 0, off, imm)
#define CALL(function) INSN(BPF_JMP | BPF_CALL, 0, 0, 0, function)
#define EXIT() INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)
// A number of 64 bits takes two instructions; src says what it stands for.
#define LOAD_64(dst, src, value) \
	INSN(BPF_LD | BPF_DW | BPF_IMM, dst, src, 0, (int32_t)(uint32_t)(value)), \
	INSN(0, 0, 0, 0, (int32_t)(uint32_t)((uint64_t)(value) >> 32))
#define LOAD_MAP(dst, fd) LOAD_64(dst, BPF_PSEUDO_MAP_FD, (uint32_t)(fd))
#define LOAD_MAP_VALUE(dst, fd) LOAD_64(dst, BPF_PSEUDO_MAP_VALUE, (uint32_t)(fd))

static inline int bpf_call(int command, union bpf_attr *attr) {
	return (int)syscall(SYS_bpf, command, attr, sizeof *attr);
}

static inline int bpf_map(uint32_t type, uint32_t value_size, uint32_t entries, uint32_t flags) {
	union bpf_attr attr = {0};
	attr.map_type = type;
	attr.key_size = 4;
	attr.value_size = value_size;
	attr.max_entries = entries;
	attr.map_flags = flags;
	int fd = bpf_call(BPF_MAP_CREATE, &attr);
	if (fd < 0)
		die(errno, "bpf: map of type %u", type);
	return fd;
}

static inline void bpf_map_set(int map, uint32_t key, const void *value) {
	union bpf_attr attr = {0};
	attr.map_fd = (uint32_t)map;
	attr.key = (uint64_t)(uintptr_t)&key;
	attr.value = (uint64_t)(uintptr_t)value;
	if (bpf_call(BPF_MAP_UPDATE_ELEM, &attr) != 0)
		die(errno, "bpf: entry %u of a map", key);
}

static inline int bpf_program(const struct bpf_insn *code, size_t n) {
	static char log[65536];
	union bpf_attr attr = {0};
	attr.prog_type = BPF_PROG_TYPE_XDP;
	attr.insns = (uint64_t)(uintptr_t)code;
	attr.insn_cnt = (uint32_t)n;
	attr.license = (uint64_t)(uintptr_t)"Dual BSD/GPL";
	int fd = bpf_call(BPF_PROG_LOAD, &attr);
	if (fd >= 0)
		return fd;
	int err = errno;
	attr.log_buf = (uint64_t)(uintptr_t)log;
	attr.log_size = sizeof log;
	attr.log_level = 1;
	if (bpf_call(BPF_PROG_LOAD, &attr) < 0) // once more, for the verifier's words
		fprintf(stderr, "%s\n", log);
	die(err, "bpf: load a program of %zu instructions", n);
}

// bpf_attach puts the program on the interface, in the driver (native) or behind it. The kernel lets go of an interface some time after
// the process that held it has ended, so EBUSY is tried again for a second.
static inline int bpf_attach(int program, unsigned ifindex, int native) {
	union bpf_attr attr = {0};
	attr.link_create.prog_fd = (uint32_t)program;
	attr.link_create.target_ifindex = ifindex;
	attr.link_create.attach_type = BPF_XDP;
	attr.link_create.flags = native ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE;
	for (uint64_t end = now_ns() + 1000000000ull;;) {
		int fd = bpf_call(BPF_LINK_CREATE, &attr);
		if (fd >= 0)
			return fd;
		if (errno != EBUSY || now_ns() > end)
			die(errno, "bpf: attach to interface %u in %s mode", ifindex, native ? "native" : "generic");
		usleep(5000);
	}
}

static inline unsigned interface_index(const char *name) {
	unsigned index = if_nametoindex(name);
	if (index == 0)
		die(errno, "-iface %s", name);
	return index;
}

// mac_of parses an Ethernet address given as six hexadecimal numbers.
static inline void mac_of(const char *name, const char *text, unsigned char mac[6]) {
	unsigned v[6];
	char rest;
	if (sscanf(text, "%x:%x:%x:%x:%x:%x%c", v, v + 1, v + 2, v + 3, v + 4, v + 5, &rest) != 6)
		die(0, "-%s %s: want an Ethernet address", name, text);
	for (int i = 0; i < 6; i++) {
		if (v[i] > 255)
			die(0, "-%s %s: want an Ethernet address", name, text);
		mac[i] = (unsigned char)v[i];
	}
}

#endif
