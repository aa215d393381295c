// The kernel's side of the receive rows: recvmmsg in a spin, on one UDP socket or on one for each of many groups.
//
//   receive -addr A [-groups N -base G] [-pass IF] [-rcvbuf BYTES]
//
//   -groups N  N sockets beside the one of A, each bound to a group of its own and the common port; epoll_wait(0) tells which have
//              something. The groups are G+1 … G+N.
//   -pass IF   put a program on IF, in its driver, that passes everything: a veth takes frames redirected to it only when one end
//              has one
//
// It counts messages and answers queries, as message.h says; each socket has a count of its own and queries get the sum. It prints
// "ready PORT", serves until SIGTERM and exits 0.
#define _GNU_SOURCE
#include "bpf.h"

#include <getopt.h>
#include <signal.h>
#include <sys/epoll.h>

enum { GROUPS_MAX = 254, BATCH = 64, LONGEST = 2048 };

static struct sockaddr_in addr = {.sin_family = AF_INET};
static int fds[GROUPS_MAX + 1], sockets; // the first is A's
static struct tally tallies[GROUPS_MAX + 1];
static volatile sig_atomic_t stopping;

static unsigned char data[BATCH][LONGEST];
static struct sockaddr_in froms[BATCH];
static struct iovec parts[BATCH];
static struct mmsghdr heads[BATCH];

static void stop(int signal) {
	(void)signal;
	stopping = 1;
}

static int open_socket(struct in_addr local, int rcvbuf) {
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), one = 1;
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0)
		die(errno, "socket");
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &rcvbuf, sizeof rcvbuf) != 0)
		die(errno, "SO_RCVBUFFORCE %d", rcvbuf);
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = local, .sin_port = addr.sin_port};
	if (bind(fd, (struct sockaddr *)&to, sizeof to) != 0)
		die(errno, "bind to %s", inet_ntoa(local));
	return fd;
}

// answer sends the sum of all counts.
static void answer(struct message *m, struct sockaddr_in *to) {
	m->received = m->behind = 0;
	for (int i = 0; i < sockets; i++) {
		m->received += tallies[i].received;
		m->behind += tallies[i].behind;
	}
	while (sendto(fds[0], m, MESSAGE_SIZE, MSG_DONTWAIT, (struct sockaddr *)to, sizeof *to) < 0 && !stopping)
		if (!would_block(errno) && errno != ENOBUFS)
			die(errno, "sendto");
}

// drain takes one batch of a socket.
static void drain(int which) {
	for (int i = 0; i < BATCH; i++)
		heads[i].msg_hdr.msg_namelen = sizeof froms[i];
	int n = recvmmsg(fds[which], heads, BATCH, MSG_DONTWAIT, NULL);
	if (n < 0 && !would_block(errno))
		die(errno, "recvmmsg");
	for (int i = 0; i < n; i++) {
		struct message *m = (struct message *)(void *)data[i];
		if (heads[i].msg_len >= MESSAGE_SIZE && tally_take(&tallies[which], m))
			answer(m, &froms[i]);
	}
}

int main(int argc, char **argv) {
	static const struct option known[] = {{"addr", 1, 0, 'a'}, {"groups", 1, 0, 'g'}, {"base", 1, 0, 'b'}, {"pass", 1, 0, 'p'},
		{"rcvbuf", 1, 0, 'r'}, {0}};
	const char *local = "", *base = "239.77.7.0", *pass = "";
	int groups = 0, rcvbuf = 4 << 20, c;
	while ((c = getopt_long_only(argc, argv, "", known, NULL)) != -1) {
		switch (c) {
		case 'a': local = optarg; break;
		case 'g': groups = (int)number("groups", optarg, 0, GROUPS_MAX); break;
		case 'b': base = optarg; break;
		case 'p': pass = optarg; break;
		case 'r': rcvbuf = (int)number("rcvbuf", optarg, 4096, 1 << 30); break;
		default: exit(2);
		}
	}
	if (optind < argc)
		die(0, "unexpected argument %s", argv[optind]);
	if (inet_pton(AF_INET, local, &addr.sin_addr) != 1)
		die(0, "-addr %s: want an IPv4 address", local);
	struct in_addr group;
	if (inet_pton(AF_INET, base, &group) != 1)
		die(0, "-base %s: want an IPv4 address", base);
	struct sigaction term = {.sa_handler = stop};
	sigaction(SIGTERM, &term, NULL);
	if (*pass) {
		const struct bpf_insn code[] = {MOV_IMM(0, XDP_PASS), EXIT()};
		bpf_attach(bpf_program(code, 2), interface_index(pass), 1);
	}
	raise_descriptors();
	fds[sockets++] = open_socket(addr.sin_addr, rcvbuf);
	socklen_t size = sizeof addr;
	if (getsockname(fds[0], (struct sockaddr *)&addr, &size) != 0)
		die(errno, "getsockname");
	for (int i = 1; i <= groups; i++) {
		struct ip_mreqn join = {.imr_multiaddr = {htonl(ntohl(group.s_addr) + (uint32_t)i)}, .imr_address = addr.sin_addr};
		fds[sockets] = open_socket(join.imr_multiaddr, rcvbuf);
		if (setsockopt(fds[sockets++], IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, sizeof join) != 0)
			die(errno, "join %s", inet_ntoa(join.imr_multiaddr));
	}
	for (int i = 0; i < BATCH; i++) {
		parts[i] = (struct iovec){data[i], LONGEST};
		heads[i].msg_hdr = (struct msghdr){.msg_name = &froms[i], .msg_iov = &parts[i], .msg_iovlen = 1};
	}
	printf("ready %d\n", ntohs(addr.sin_port));
	fflush(stdout);

	int ep = epoll_create1(EPOLL_CLOEXEC);
	for (int i = 0; i < sockets; i++) {
		struct epoll_event e = {.events = EPOLLIN, .data.fd = i};
		if (ep < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, fds[i], &e) != 0)
			die(errno, "epoll");
	}
	struct epoll_event events[GROUPS_MAX + 1];
	while (!stopping) {
		if (sockets == 1) {
			drain(0);
			continue;
		}
		int n = epoll_wait(ep, events, sockets, 0);
		for (int i = 0; i < n; i++)
			drain(events[i].data.fd);
	}
	return 0;
}
