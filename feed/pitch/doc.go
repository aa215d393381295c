// Package pitch reads Cboe's multicast PITCH for US equities: packets and the displayed orders in them. Feed handlers use it on the UDP
// payload; the orders go into a book.ByOrder.
//
// The format is that of the "Cboe US Equities Multicast PITCH Specification", version 2. A packet is a header of 8 bytes, the sequenced
// unit header, and then messages. All numbers are little-endian. Prices are in 1/10,000 of a dollar. The time of a message is in
// nanoseconds behind the last Time message, which has seconds since midnight, Eastern Time.
//
//	offset  size  header field
//	     0     2  length of the packet, with the header
//	     2     1  message count; 0 is a heartbeat
//	     3     1  unit
//	     4     4  sequence number of the first message of the unit; in a heartbeat of the next one to come; 0 is unsequenced
//
// Symbols are spread over units, and each unit has a sequence of its own: one feed.Channel for each unit. The first byte of a message
// is its length and the second its type. Messages are stepped over by their length, never by their type, because lengths differ between
// markets and versions.
//
//	type        bytes   message                            read by
//	0x20        6       time                               ParseTime
//	0x21, 0x22  34, 26  add order, long and short          ParseAddOrder
//	0x23, 0x24  26, 38  order executed, at price and size  ParseOrderExecuted
//	0x25, 0x26  18, 16  reduce size, long and short        ParseReduceSize
//	0x27, 0x28  27, 19  modify order, long and short       ParseModifyOrder
//	0x29        14      delete order                       ParseDeleteOrder
//	0x2a, 0x2b  41, 33  trade, long and short              ParseTrade
//	0x97        6       unit clear                         no fields: the unit's books are empty
//
// An execution at price and size says how many shares the order has left (OrderExecuted.Remaining, book.ByOrder.Resize); every other
// execution takes its shares off the order.
//
// Short messages have two bytes for a price in cents. The functions give prices of both in 1/10,000.
//
// # Errors
//
// Parse checks that header and messages fill the packet and returns a *feed.FormatError with ErrShort or ErrLength. A message that is
// shorter than its type says is one with ErrShort, one of another type than the function reads has ErrType, and an unknown type is an
// UnknownTypeError. A longer message is accepted. Nothing allocates but the errors for what is malformed.
//
// # What is not decoded
//
// Trade break, end of session, trading status and everything of other markets (options, Europe, CFE), whose layouts differ. Gap requests
// and spins are protocols of their own, over TCP.
package pitch
