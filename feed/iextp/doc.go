// Package iextp reads and writes IEX-TP 1, the transport of the market data of the Investors Exchange. Feed handlers of TOPS and DEEP
// use it between the UDP payload and the message decoders (packages deep and tops), simulators to make packets.
//
// The format is that of the "IEX Transport Specification", version 1.25: a header of 40 bytes, then messages, each behind its length.
// All numbers are little-endian.
//
//	offset  size  header field
//	     0     1  version, 1
//	     2     2  message protocol: DEEP10, TOPS16
//	     4     4  channel
//	     8     4  session, another one on each trading day
//	    12     2  payload length, bytes behind the header
//	    14     2  message count; 0 is a heartbeat
//	    16     8  stream offset of the first payload byte
//	    24     8  sequence number of the first message; in a heartbeat of the next one to come
//	    32     8  send time, nanoseconds since 1970 UTC
//
// A packet is parsed once and its messages are taken one after another. Nothing is copied and nothing is allocated: the header and the
// messages are the packet's own bytes.
//
//	h, messages, err := iextp.Parse(payload)
//	for m, rest := iextp.Next(messages); m != nil; m, rest = iextp.Next(rest) {
//		// deep.ParsePriceLevel(m) …
//	}
//
// # Errors
//
// Parse checks that the header's length and count agree with the messages, so that what it accepts can be walked without a check. It
// returns a *feed.FormatError with one of ErrShort, ErrVersion, ErrLength and ErrCount. Bytes behind the payload are not looked at:
// they are padding.
//
// # What is not decoded
//
// A message protocol that is not known is no error; Header.Protocol returns it. Gap fill by stream offset, by several ranges in one request
// and over TCP is not written, nor are SNAP snapshots. The layout of GapFill was taken from an open decoder: check it against the
// specification before you send it to the exchange.
package iextp
