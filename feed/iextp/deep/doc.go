// Package deep reads and writes the messages of IEX DEEP 1.0: price levels and trades of every symbol on the Investors Exchange. Feed
// handlers use it on the messages that package iextp takes out of a packet; the levels go into a book.ByPrice.
//
// The format is that of the "IEX DEEP Specification", version 1.08. Numbers are little-endian. Prices are in 1/10,000 of a dollar,
// sizes in shares, times in nanoseconds since 1970 UTC.
//
//	type  bytes  message                     read by
//	8, 5     30  price level, buy and sell   ParsePriceLevel
//	T, B     38  trade and trade break       ParseTrade
//	S        10  system event                ParseSystemEvent
//	H, I, O  22, 18, 18                      ParseStatus: trading status, retail liquidity, operational halt
//	P, E     19, 18                          ParseStatus: short sale price test, security event
//	D, X, A  31, 26, 80                      not decoded: directory, official price, auction
//
// # A book from price levels
//
// A price level message is the whole size at a price, and size 0 removes the level. A change at the exchange may take several
// messages: the book is one that existed there only after a message with Complete set.
//
// # Errors
//
// A message that is shorter than its type says is a *feed.FormatError with ErrShort; one of another type than the function reads has
// ErrType. An unknown type is an UnknownTypeError. A longer message is accepted: IEX appends fields. Nothing allocates but the first
// two errors.
//
// # What is not decoded
//
// Messages D, X and A, the reason of a trading status and the detail of a short sale status. Check knows their lengths.
package deep
