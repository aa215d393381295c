// Package moldudp64 reads and writes MoldUDP64, the multicast transport of Nasdaq and of exchanges that use its technology. Feed
// handlers use it between the UDP payload and the message decoder (package itch for Nasdaq), simulators to make packets and to answer
// requests.
//
// The format is that of "MoldUDP64 Protocol Specification", version 1.00: a header of 20 bytes, then messages, each behind its length.
// All numbers are big-endian.
//
//	offset  size  header field
//	     0    10  session, ASCII
//	    10     8  sequence number of the first message; without messages of the next one to come
//	    18     2  message count; 0 is a heartbeat, EndOfSession ends the session
//
// A request has the same 20 bytes: the session, the first sequence number wanted and how many messages. It is sent by unicast, and the
// answer is one ordinary packet with as many of the messages as fit. The rest is asked for again
// (feed.RecoveryConfig.OnePacket).
//
// A packet is parsed once and its messages are taken one after another. Nothing is copied and nothing is allocated: the header and the
// messages are the packet's own bytes.
//
// # Errors
//
// Parse checks that the messages which the header counts are in the packet, so that what it accepts can be walked without a check. It
// returns a *feed.FormatError with ErrShort or ErrLength. Bytes behind the last message are not looked at.
//
// # What is not decoded
//
// The format has no send time and no checksum, so that a feed.Channel cannot detect a sender's restart within a session. SoupBinTCP, the
// transport of the same messages over TCP, and Glimpse snapshots are not read.
package moldudp64
