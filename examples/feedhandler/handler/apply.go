package handler

import (
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/book"
	"github.com/socketxtreme/socketxtreme/feed/iextp"
	"github.com/socketxtreme/socketxtreme/feed/iextp/deep"
	"github.com/socketxtreme/socketxtreme/feed/iextp/tops"
	"github.com/socketxtreme/socketxtreme/feed/itch"
	"github.com/socketxtreme/socketxtreme/feed/mdp3"
	"github.com/socketxtreme/socketxtreme/feed/moldudp64"
	"github.com/socketxtreme/socketxtreme/feed/pitch"
)

// apply decodes count messages of a packet behind the first skip ones, into the books.
func (c *Channel) apply(packet []byte, skip, count uint32) {
	switch c.proto {
	case DEEP, TOPS:
		for b := packet[iextp.HeaderLen:]; count > 0; {
			var m []byte
			if m, b = iextp.Next(b); m == nil {
				return
			}
			if skip > 0 {
				skip--
				continue
			}
			count--
			c.iex(m)
		}
	case MoldUDP64:
		for b := packet[moldudp64.HeaderLen:]; count > 0; {
			var m []byte
			if m, b = moldudp64.Next(b); m == nil {
				return
			}
			if skip > 0 {
				skip--
				continue
			}
			count--
			c.itch(m)
		}
	case PITCH:
		for b := packet[pitch.HeaderLen:]; count > 0; {
			var m []byte
			if m, b = pitch.Next(b); m == nil {
				return
			}
			if skip > 0 {
				skip--
				continue
			}
			count--
			c.pitch(m)
		}
	case MDP3: // a packet is one unit of sequence
		_, messages, err := mdp3.Parse(packet)
		if err != nil {
			return
		}
		for m, rest := mdp3.Next(messages); m != nil; m, rest = mdp3.Next(rest) {
			c.mdp3(m)
		}
	}
}

// iex takes a message of DEEP or TOPS; quotes are in TOPS only, price levels in DEEP only.
func (c *Channel) iex(m []byte) {
	c.messages++
	if len(m) == 0 {
		c.skipped++
		return
	}
	c.types[m[0]]++
	var err error
	switch m[0] {
	case deep.TypeBuyLevel, deep.TypeSellLevel:
		var l deep.PriceLevel
		if l, err = deep.ParsePriceLevel(m); err != nil {
			break
		}
		c.prices.Set(uint64(l.Symbol), l.Buy, l.Price, uint64(l.Size))
		// Only at the end of an atomic event is the book one that existed at the exchange.
		if l.Complete && c.prices.Changed() {
			c.published++
			c.last = uint64(l.Symbol)
		}
	case tops.TypeQuote:
		var q tops.Quote
		if q, err = tops.ParseQuote(m); err != nil {
			break
		}
		c.prices.Quote(uint64(q.Symbol), book.Level{Price: q.BidPrice, Size: uint64(q.BidSize)},
			book.Level{Price: q.AskPrice, Size: uint64(q.AskSize)})
		c.published++
		c.last = uint64(q.Symbol)
	case deep.TypeTrade:
		var t deep.Trade
		if t, err = deep.ParseTrade(m); err != nil {
			break
		}
		c.trades++
		c.volume += uint64(t.Size)
	default:
		err = deep.Check(m)
	}
	if err != nil {
		c.skipped++
	}
}

func (c *Channel) itch(m []byte) {
	c.messages++
	if len(m) == 0 {
		c.skipped++
		return
	}
	c.types[m[0]]++
	o := c.orders
	var err error
	switch m[0] {
	case itch.TypeAddOrder, itch.TypeAddOrderMPID:
		var a itch.AddOrder
		if a, err = itch.ParseAddOrder(m); err != nil {
			break
		}
		o.New(a.Ref, uint64(a.Stock), a.Buy, a.Shares, int64(a.Price))
		c.last = uint64(a.Stock)
		c.published++
	case itch.TypeOrderExecuted, itch.TypeOrderExecutedWithPrice:
		var e itch.OrderExecuted
		if e, err = itch.ParseOrderExecuted(m); err != nil {
			break
		}
		c.trades++
		c.volume += uint64(e.Shares)
		o.Reduce(e.Ref, e.Shares)
		c.published++
	case itch.TypeOrderCancel:
		var x itch.OrderCancel
		if x, err = itch.ParseOrderCancel(m); err != nil {
			break
		}
		o.Reduce(x.Ref, x.Shares)
		c.published++
	case itch.TypeOrderDelete:
		var d itch.OrderDelete
		if d, err = itch.ParseOrderDelete(m); err != nil {
			break
		}
		o.Delete(d.Ref)
		c.published++
	case itch.TypeOrderReplace:
		var r itch.OrderReplace
		if r, err = itch.ParseOrderReplace(m); err != nil {
			break
		}
		o.Replace(r.Ref, r.NewRef, r.Shares, int64(r.Price))
		c.published++
	case itch.TypeTrade:
		var t itch.Trade
		if t, err = itch.ParseTrade(m); err != nil {
			break
		}
		c.hidden++
		c.hiddenVolume += uint64(t.Shares)
	default:
		err = itch.Check(m)
	}
	if err != nil {
		c.skipped++
	}
}

func (c *Channel) pitch(m []byte) {
	c.messages++
	c.types[m[1]]++
	o := c.orders
	var err error
	switch m[1] {
	case pitch.TypeAddOrderLong, pitch.TypeAddOrderShort:
		var a pitch.AddOrder
		if a, err = pitch.ParseAddOrder(m); err != nil {
			break
		}
		o.New(a.Order, uint64(a.Symbol), a.Buy, a.Shares, a.Price)
		c.last = uint64(a.Symbol)
		c.published++
	case pitch.TypeOrderExecuted, pitch.TypeOrderExecutedAtPrice:
		var e pitch.OrderExecuted
		if e, err = pitch.ParseOrderExecuted(m); err != nil {
			break
		}
		c.trades++
		c.volume += uint64(e.Shares)
		o.Reduce(e.Order, e.Shares)
		c.published++
	case pitch.TypeReduceSizeLong, pitch.TypeReduceSizeShort:
		var r pitch.ReduceSize
		if r, err = pitch.ParseReduceSize(m); err != nil {
			break
		}
		o.Reduce(r.Order, r.Shares)
		c.published++
	case pitch.TypeModifyOrderLong, pitch.TypeModifyOrderShort:
		var n pitch.ModifyOrder
		if n, err = pitch.ParseModifyOrder(m); err != nil {
			break
		}
		o.Replace(n.Order, n.Order, n.Shares, n.Price)
		c.published++
	case pitch.TypeDeleteOrder:
		var d pitch.DeleteOrder
		if d, err = pitch.ParseDeleteOrder(m); err != nil {
			break
		}
		o.Delete(d.Order)
		c.published++
	case pitch.TypeTradeLong, pitch.TypeTradeShort:
		var t pitch.Trade
		if t, err = pitch.ParseTrade(m); err != nil {
			break
		}
		c.hidden++
		c.hiddenVolume += uint64(t.Shares)
	case pitch.TypeUnitClear:
		o.Clear()
	default:
		err = pitch.Check(m)
	}
	if err != nil {
		c.skipped++
	}
}

func (c *Channel) mdp3(m mdp3.Message) {
	c.messages++
	template := m.Template()
	kind := min(int(template), len(c.types)-1)
	c.types[kind]++
	var g mdp3.Group
	var err error
	switch template {
	case mdp3.Book32, mdp3.Book46:
		if g, err = m.Group(mdp3.BookEntryLen); err != nil {
			break
		}
		for i := range g.Count {
			c.bookEntry((*mdp3.BookEntry)(g.Entry(i)))
		}
		c.published++
	case mdp3.TradeSummary42, mdp3.TradeSummary48:
		if g, err = m.Group(mdp3.TradeEntryLen); err != nil {
			break
		}
		for i := range g.Count {
			e := (*mdp3.TradeEntry)(g.Entry(i))
			c.positions.At(e.Security(), e.RptSeq())
			c.trades++
			c.volume += uint64(max(e.Size(), 0))
		}
	case mdp3.Volume37:
		if g, err = m.Group(mdp3.VolumeEntryLen); err != nil {
			break
		}
		for i := range g.Count {
			e := (*mdp3.VolumeEntry)(g.Entry(i))
			c.positions.At(e.Security(), e.RptSeq())
		}
	case mdp3.SessionStatistics35, mdp3.SessionStatistics51:
		if g, err = m.Group(mdp3.StatisticsEntryLen); err != nil {
			break
		}
		for i := range g.Count {
			e := (*mdp3.StatisticsEntry)(g.Entry(i))
			c.positions.At(e.Security(), e.RptSeq())
		}
	case mdp3.ChannelReset4:
		c.positions.Clear()
	default:
		err = m.Check()
	}
	c.entries[kind] += uint64(g.Count)
	if err != nil {
		c.skipped++
	}
}

// bookEntry applies one entry of a book refresh.
func (c *Channel) bookEntry(e *mdp3.BookEntry) {
	s := c.positions.At(e.Security(), e.RptSeq())
	side := 0
	switch e.Type() {
	case mdp3.EntryBid:
		side = book.Bid
	case mdp3.EntryOffer:
		side = book.Offer
	case mdp3.EntryImpliedBid:
		side = book.ImpliedBid
	case mdp3.EntryImpliedOffer:
		side = book.ImpliedOffer
	case mdp3.EntryBookReset:
		s.Reset()
		return
	default:
		return // opening prices, limits and the like: no levels
	}
	c.positions.Apply(s, book.Update{Action: e.Action(), Side: side, Level: int(e.Level()),
		Entry: book.Entry{Price: e.Price(), Size: e.Size(), Orders: e.Orders()}})
}
