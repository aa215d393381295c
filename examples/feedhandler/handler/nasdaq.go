package handler

import (
	"github.com/socketxtreme/socketxtreme/feed"
	"github.com/socketxtreme/socketxtreme/feed/book"
	"github.com/socketxtreme/socketxtreme/feed/itch"
	"github.com/socketxtreme/socketxtreme/feed/moldudp64"
)

// parseNasdaq decodes the header of a MoldUDP64 packet into a segment.
func (c *Channel) parseNasdaq(b []byte, s *feed.Segment[Ref]) verdict {
	h, _, err := moldudp64.Parse(b)
	if err != nil {
		return malformed
	}
	if h.Seq() == 0 { // sequences begin with 1: the header was blanked
		s.Count = h.Count()
		return unsequenced
	}
	s.Session, s.Seq, s.Count, s.End = h.SessionKey(), h.Seq(), h.Count(), h.End()
	return good
}

// applyNasdaq applies one ITCH message to the books.
func (c *Channel) applyNasdaq(m []byte) error {
	if len(m) == 0 {
		return itch.Check(m)
	}
	c.types[m[0]]++
	switch m[0] {
	case itch.TypeAddOrder, itch.TypeAddOrderMPID:
		a, err := itch.ParseAddOrder(m)
		if err != nil {
			return err
		}
		c.orders.Add(book.Order{Ref: a.Ref, Symbol: a.Stock, Buy: a.Buy, Shares: a.Shares, Price: int64(a.Price)})
		c.last = a.Stock
	case itch.TypeOrderExecuted, itch.TypeOrderExecutedWithPrice:
		e, err := itch.ParseOrderExecuted(m)
		if err != nil {
			return err
		}
		c.trade(uint64(e.Shares))
		c.orders.Reduce(e.Ref, e.Shares)
	case itch.TypeOrderCancel:
		x, err := itch.ParseOrderCancel(m)
		if err != nil {
			return err
		}
		c.orders.Reduce(x.Ref, x.Shares)
	case itch.TypeOrderDelete:
		d, err := itch.ParseOrderDelete(m)
		if err != nil {
			return err
		}
		c.orders.Delete(d.Ref)
	case itch.TypeOrderReplace:
		r, err := itch.ParseOrderReplace(m)
		if err != nil {
			return err
		}
		c.orders.Replace(r.Ref, r.NewRef, r.Shares, int64(r.Price))
	case itch.TypeTrade:
		t, err := itch.ParseTrade(m)
		if err == nil {
			c.hide(uint64(t.Shares))
		}
		return err
	default:
		return itch.Check(m)
	}
	c.published++
	return nil
}

// requestNasdaq writes a request.
func requestNasdaq(b []byte, r feed.Request) []byte {
	return moldudp64.Request{Session: moldudp64.SessionName(r.Session), Seq: r.From, Count: uint16(min(r.Len(), moldudp64.MaxRequest))}.Append(b)
}
