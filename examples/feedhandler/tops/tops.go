// Package tops reads IEX TOPS 1.6: best bid and offer of each symbol (IEX TOPS Specification 1.6). The other messages
// are DEEP's.
package tops

import "encoding/binary"

// Quote is the type of a QuoteUpdate.
const Quote = 'Q'

const quoteLen = 42

// QuoteUpdate is the best bid and offer of a symbol.
type QuoteUpdate [quoteLen]byte

// ParseQuote reads a Quote message.
func ParseQuote(m []byte) (*QuoteUpdate, bool) {
	if len(m) < quoteLen || m[0] != Quote {
		return nil, false
	}
	return (*QuoteUpdate)(m), true
}

// Symbol is the eight bytes of the symbol.
func (q *QuoteUpdate) Symbol() uint64 { return binary.LittleEndian.Uint64(q[10:]) }

// BidSize is in shares; 0 is no bid.
func (q *QuoteUpdate) BidSize() uint32 { return binary.LittleEndian.Uint32(q[18:]) }

// BidPrice is in 1/10,000.
func (q *QuoteUpdate) BidPrice() int64 { return int64(binary.LittleEndian.Uint64(q[22:])) }

// AskPrice is in 1/10,000.
func (q *QuoteUpdate) AskPrice() int64 { return int64(binary.LittleEndian.Uint64(q[30:])) }

// AskSize is in shares; 0 is no offer.
func (q *QuoteUpdate) AskSize() uint32 { return binary.LittleEndian.Uint32(q[38:]) }
