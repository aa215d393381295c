package handler

import (
	"github.com/socketxtreme/socketxtreme/feed"
	"github.com/socketxtreme/socketxtreme/feed/book"
	"github.com/socketxtreme/socketxtreme/feed/iextp"
	"github.com/socketxtreme/socketxtreme/feed/iextp/deep"
	"github.com/socketxtreme/socketxtreme/feed/iextp/tops"
)

// parseIEX decodes the header of an IEX packet into a segment.
func (c *Channel) parseIEX(b []byte, s *feed.Segment[Ref]) verdict {
	h, _, err := iextp.Parse(b)
	if err != nil {
		return malformed
	}
	want := uint16(iextp.DEEP10)
	if c.proto == TOPS {
		want = iextp.TOPS16
	}
	if h.Protocol() != want || c.isOther(uint64(h.Channel())) {
		return foreign
	}
	s.Session, s.Seq, s.Count, s.Sent = uint64(h.Session()), h.Seq(), h.Count(), h.SendTime()
	return good
}

// applyIEX takes a message of DEEP or TOPS: price levels are in DEEP only, quotes in TOPS only.
func (c *Channel) applyIEX(m []byte) error {
	if len(m) == 0 {
		return deep.Check(m)
	}
	c.types[m[0]]++
	switch m[0] {
	case deep.TypeBuyLevel, deep.TypeSellLevel:
		l, err := deep.ParsePriceLevel(m)
		if err != nil {
			return err
		}
		c.prices.Set(l.Symbol, l.Buy, l.Price, uint64(l.Size))
		// Only at the end of an event is the book one that existed at the exchange.
		if l.Complete && c.prices.Changed() {
			c.publish(l.Symbol)
		}
	case tops.TypeQuote:
		q, err := tops.ParseQuote(m)
		if err != nil {
			return err
		}
		c.prices.Quote(q.Symbol, book.Level{Price: q.BidPrice, Size: uint64(q.BidSize)},
			book.Level{Price: q.AskPrice, Size: uint64(q.AskSize)})
		c.publish(q.Symbol)
	case deep.TypeTrade:
		t, err := deep.ParseTrade(m)
		if err != nil {
			return err
		}
		c.trade(uint64(t.Size))
	default:
		return deep.Check(m)
	}
	return nil
}

// requestIEX writes a gap fill request.
func (c *Channel) requestIEX(b []byte, r feed.Request) []byte {
	g := iextp.GapFill{Protocol: iextp.DEEP10, Channel: uint32(c.id), Session: uint32(r.Session), From: r.From, To: r.To}
	if c.proto == TOPS {
		g.Protocol = iextp.TOPS16
	}
	return g.Append(b)
}
