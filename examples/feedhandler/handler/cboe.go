package handler

import (
	"github.com/socketxtreme/socketxtreme/feed"
	"github.com/socketxtreme/socketxtreme/feed/book"
	"github.com/socketxtreme/socketxtreme/feed/pitch"
)

// parseCboe decodes the header of a Cboe packet into a segment.
func (c *Channel) parseCboe(b []byte, s *feed.Segment[Ref]) verdict {
	h, _, err := pitch.Parse(b)
	if err != nil {
		return malformed
	}
	if c.isOther(uint64(h.Unit())) {
		return foreign
	}
	s.Seq, s.Count = uint64(h.Seq()), h.Count()
	if s.Seq == 0 {
		return unsequenced
	}
	return good
}

// applyCboe applies one PITCH message to the books.
func (c *Channel) applyCboe(m []byte) error {
	c.types[m[1]]++
	switch m[1] {
	case pitch.TypeAddOrderLong, pitch.TypeAddOrderShort:
		a, err := pitch.ParseAddOrder(m)
		if err != nil {
			return err
		}
		c.orders.Add(book.Order{Ref: a.Order, Symbol: a.Symbol, Buy: a.Buy, Shares: a.Shares, Price: a.Price})
		c.last = a.Symbol
	case pitch.TypeOrderExecuted, pitch.TypeOrderExecutedAtPrice:
		e, err := pitch.ParseOrderExecuted(m)
		if err != nil {
			return err
		}
		c.trade(uint64(e.Shares))
		if e.AtPrice {
			c.orders.Resize(e.Order, e.Remaining)
		} else {
			c.orders.Reduce(e.Order, e.Shares)
		}
	case pitch.TypeReduceSizeLong, pitch.TypeReduceSizeShort:
		r, err := pitch.ParseReduceSize(m)
		if err != nil {
			return err
		}
		c.orders.Reduce(r.Order, r.Shares)
	case pitch.TypeModifyOrderLong, pitch.TypeModifyOrderShort:
		o, err := pitch.ParseModifyOrder(m)
		if err != nil {
			return err
		}
		c.orders.Replace(o.Order, o.Order, o.Shares, o.Price)
	case pitch.TypeDeleteOrder:
		d, err := pitch.ParseDeleteOrder(m)
		if err != nil {
			return err
		}
		c.orders.Delete(d.Order)
	case pitch.TypeTradeLong, pitch.TypeTradeShort:
		t, err := pitch.ParseTrade(m)
		if err == nil {
			c.hide(uint64(t.Shares))
		}
		return err
	case pitch.TypeUnitClear:
		c.orders.Clear()
		return nil
	default:
		return pitch.Check(m)
	}
	c.published++
	return nil
}
