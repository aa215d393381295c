// Ethernet, IPv4 and UDP headers written by hand: one fixed frame that is copied or turned around. UDP's checksum is 0, "none" (RFC 768):
// whoever verifies has nothing to verify, and no end of a comparison pays for sums that the other leaves out.
#ifndef BENCH_FRAME_H
#define BENCH_FRAME_H

#include "message.h"

enum { FRAME_ETHER = 14, FRAME_IP = 20, FRAME_UDP = 8, FRAME_HEADERS = FRAME_ETHER + FRAME_IP + FRAME_UDP };
enum { AT_TYPE = 12, AT_IP = 14, AT_IP_SUM = 24, AT_PROTOCOL = 23, AT_SOURCE = 26, AT_TARGET = 30, AT_SPORT = 34, AT_DPORT = 36,
	AT_UDP_SUM = 40 };

static inline void put16(unsigned char *at, uint16_t big_endian) { memcpy(at, &big_endian, 2); }

// frame_sum is the sum of the IP header's words as the machine loads them, not yet folded: it may be taken in either byte order
// (RFC 1071 section 2).
static inline uint32_t frame_sum(const unsigned char *frame) {
	uint32_t sum = 0;
	for (int i = 0; i < FRAME_IP; i += 2) {
		uint16_t word;
		memcpy(&word, frame + AT_IP + i, 2);
		sum += word;
	}
	return sum;
}

static inline uint16_t frame_fold(uint32_t sum) {
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~((sum & 0xffff) + (sum >> 16));
}

static inline void frame_headers(unsigned char *frame, const unsigned char to_mac[6], const unsigned char from_mac[6],
	const struct sockaddr_in *from, const struct sockaddr_in *to, int payload) {
	memset(frame, 0, FRAME_HEADERS);
	memcpy(frame, to_mac, 6);
	memcpy(frame + 6, from_mac, 6);
	put16(frame + AT_TYPE, htons(0x0800));
	frame[AT_IP] = 0x45;
	put16(frame + AT_IP + 2, htons((uint16_t)(FRAME_IP + FRAME_UDP + payload)));
	put16(frame + AT_IP + 6, htons(0x4000)); // don't fragment
	frame[AT_IP + 8] = 64;
	frame[AT_PROTOCOL] = IPPROTO_UDP;
	memcpy(frame + AT_SOURCE, &from->sin_addr, 4);
	memcpy(frame + AT_TARGET, &to->sin_addr, 4);
	put16(frame + AT_IP_SUM, frame_fold(frame_sum(frame)));
	put16(frame + AT_SPORT, from->sin_port);
	put16(frame + AT_DPORT, to->sin_port);
	put16(frame + AT_SPORT + 4, htons((uint16_t)(FRAME_UDP + payload)));
}

// frame_turn makes a received frame its own answer. The IP header's sum stays right: the words only change places.
static inline void frame_turn(unsigned char *frame) {
	unsigned char keep[6];
	memcpy(keep, frame, 6);
	memcpy(frame, frame + 6, 6);
	memcpy(frame + 6, keep, 6);
	memcpy(keep, frame + AT_SOURCE, 4);
	memcpy(frame + AT_SOURCE, frame + AT_TARGET, 4);
	memcpy(frame + AT_TARGET, keep, 4);
	memcpy(keep, frame + AT_SPORT, 2);
	memcpy(frame + AT_SPORT, frame + AT_DPORT, 2);
	memcpy(frame + AT_DPORT, keep, 2);
	put16(frame + AT_UDP_SUM, 0); // a veth peer's sum may be only that of the pseudo-header
}

#endif
