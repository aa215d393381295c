// Package tops reads and writes the quotes of IEX TOPS 1.6: the best bid and offer of every symbol on the Investors Exchange. Feed
// handlers use it on the messages that package iextp takes out of a packet; a quote replaces both sides of a book (book.ByPrice.Quote).
//
// The format is that of the "IEX TOPS Specification", version 1.6. Numbers are little-endian. Prices are in 1/10,000 of a dollar, sizes
// in shares, times in nanoseconds since 1970 UTC. Sizes are rounded down to round lots by the exchange, so that an odd lot has none.
//
// All other messages of TOPS are those of DEEP: read them with package deep.
//
// A message that is shorter than a quote is a *feed.FormatError with ErrShort, one of another type has ErrType. A longer one is accepted.
package tops
