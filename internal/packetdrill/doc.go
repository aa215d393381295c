// Package packetdrill plays scripts in the packetdrill language (Cardwell et al., USENIX ATC 2013) against a TCP in virtual time. Tests of
// package tcp use it: a script says which segments arrive, which system calls the application makes, and what must leave and when.
//
//	// A server sends one segment; the peer acknowledges it.
//	0    socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
//	+0   bind(3, ..., ...) = 0
//	+0   listen(3, 1) = 0
//	+0   < S 0:0(0) win 65535 <mss 1000>
//	+0   > S. 0:0(0) ack 1 <mss 1460>
//	+.1  < . 1:1(0) ack 1 win 65535
//	+0   accept(3, ..., ...) = 4
//	+0   write(4, ..., 1000) = 1000
//	+0   > P. 1:1001(1000) ack 1
//
// # Language
//
// [Parse] reads a script, [Run] plays it. What a script may contain:
//
//	when        0.5   absolute             +0.5  after the statement before   *        at any time
//	            0.5~0.6, +0.5~+0.6         a range                            +0...0.2 a call that blocks until then
//	segment     < or >, [ect0] or the like, flags of FSRP.UEW or -, seq:seq(len), ack n, win n, urg n, <options>
//	options     mss n, wscale n, sackOK, sack a:b c:d, TS val n ecr n, nop, eol, raw HEX; <...> means any
//	ICMP error  < icmp unreachable port_unreachable [1:1001(1000)], frag_needed mtu n, and the other codes
//	call        name(arguments) = result, ERRNO behind it where the result is -1
//	check       %{ assert tcpi_snd_cwnd == 10 }%
//	setting     --tolerance_usecs=n and --tcp_ts_tick_usecs=n before the first statement
//	comment     //, # at the beginning of a line, /* */
//
// Numbers of segments are relative, as in the scripts of others: the player adds what is needed to the sequence numbers and timestamps of the
// subject. Unlike there, the player fills segments and writes with bytes that depend on their place in the stream, and checks the bytes
// that leave and that are read. The option raw is an addition: option bytes as they are, for malformed lists. Shell commands and Python
// other than assert are refused.
//
// # Time
//
// The player asks the [Subject] for its next deadline and moves the clock there: a script of hours takes microseconds. Without a tolerance each
// time is exact. At the end of a script no segment may be left.
package packetdrill
