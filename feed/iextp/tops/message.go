package tops

import (
	"encoding/binary"
	"errors"

	"github.com/socketxtreme/socketxtreme/feed"
)

// TypeQuote is the first byte of a quote.
const TypeQuote = 'Q'

const quoteLen = 42

// The reasons for which a message is refused.
var (
	ErrShort = errors.New("tops: message shorter than its type")
	ErrType  = errors.New("tops: message is not a quote")
)

// Quote is the best bid and offer of a symbol. A side with size 0 is empty.
type Quote struct {
	Time     int64 // ns since 1970
	Symbol   feed.Symbol
	BidPrice int64 // 1/10,000 of a dollar
	AskPrice int64
	BidSize  uint32
	AskSize  uint32
	Flags    byte // bit 7: the symbol is halted or not available; bit 6: pre-market or post-market
}

// ParseQuote reads a message of type TypeQuote.
func ParseQuote(m []byte) (q Quote, err error) {
	if len(m) < quoteLen || m[0] != TypeQuote {
		return q, refuse(m)
	}
	return Quote{
		Flags:    m[1],
		Time:     int64(binary.LittleEndian.Uint64(m[2:])),
		Symbol:   feed.Symbol(binary.LittleEndian.Uint64(m[10:])),
		BidSize:  binary.LittleEndian.Uint32(m[18:]),
		BidPrice: int64(binary.LittleEndian.Uint64(m[22:])),
		AskPrice: int64(binary.LittleEndian.Uint64(m[30:])),
		AskSize:  binary.LittleEndian.Uint32(m[38:]),
	}, nil
}

func refuse(m []byte) error {
	if len(m) > 0 && m[0] != TypeQuote {
		return &feed.FormatError{Reason: ErrType, Type: int(m[0]), Have: int(m[0]), Want: TypeQuote}
	}
	return &feed.FormatError{Reason: ErrShort, Type: TypeQuote, Have: len(m), Want: quoteLen}
}

// Append writes the message behind b.
func (q Quote) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(append(b, TypeQuote, q.Flags), uint64(q.Time))
	b = binary.LittleEndian.AppendUint64(b, uint64(q.Symbol))
	b = binary.LittleEndian.AppendUint32(b, q.BidSize)
	b = binary.LittleEndian.AppendUint64(b, uint64(q.BidPrice))
	b = binary.LittleEndian.AppendUint64(b, uint64(q.AskPrice))
	return binary.LittleEndian.AppendUint32(b, q.AskSize)
}
