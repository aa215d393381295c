package handler

import (
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/book"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/mdp3"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/pitch"
	"github.com/socketxtreme/socketxtreme/feed/iextp"
	"github.com/socketxtreme/socketxtreme/feed/iextp/deep"
	"github.com/socketxtreme/socketxtreme/feed/iextp/tops"
	"github.com/socketxtreme/socketxtreme/feed/itch"
	"github.com/socketxtreme/socketxtreme/feed/moldudp64"
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
	if m[1] == pitch.UnitClear {
		o.Clear()
		return
	}
	if !pitch.Known(m) {
		return // time, status and the like touch no book
	}
	switch m[1] {
	case pitch.AddLong, pitch.AddShort:
		buy, shares, symbol, price := pitch.Add(m)
		o.New(pitch.Order(m), symbol, buy, shares, price)
		c.last = symbol
	case pitch.Executed, pitch.ExecutedAtPrice:
		c.trades++
		c.volume += uint64(pitch.Shares(m))
		o.Reduce(pitch.Order(m), pitch.Shares(m))
	case pitch.ReduceLong, pitch.ReduceShort:
		o.Reduce(pitch.Order(m), pitch.Shares(m))
	case pitch.ModifyLong, pitch.ModifyShort:
		shares, price := pitch.Modify(m)
		o.Replace(pitch.Order(m), pitch.Order(m), shares, price)
	case pitch.Delete:
		o.Delete(pitch.Order(m))
	case pitch.TradeLong, pitch.TradeShort:
		c.hidden++
		c.hiddenVolume += uint64(pitch.TradeShares(m))
		return
	}
	c.published++
}

func (c *Channel) mdp3(m mdp3.Message) {
	c.messages++
	template := m.Template()
	c.types[min(int(template), len(c.types)-1)]++
	switch template {
	case mdp3.Book32, mdp3.BookV9:
		g, ok := m.Group(mdp3.BookEntryLen)
		if !ok {
			c.skipped++
			return
		}
		for i := range g.Count {
			c.bookEntry((*mdp3.BookEntry)(g.Entry(i)))
		}
		c.entries[min(int(template), len(c.types)-1)] += uint64(g.Count)
		c.published++
	case mdp3.Trades42, mdp3.TradesV9:
		g, ok := m.Group(mdp3.TradeEntryLen)
		if !ok {
			c.skipped++
			return
		}
		for i := range g.Count {
			qty, security, rpt := mdp3.Trade(g.Entry(i))
			c.positions.At(security, rpt)
			c.trades++
			c.volume += uint64(max(qty, 0))
		}
		c.entries[template] += uint64(g.Count)
	case mdp3.Volume37:
		g, ok := m.Group(12)
		if !ok {
			c.skipped++
			return
		}
		for i := range g.Count {
			c.positions.At(mdp3.Volume(g.Entry(i)))
		}
		c.entries[template] += uint64(g.Count)
	case mdp3.Statistics35, mdp3.StatisticsV9:
		g, ok := m.Group(16)
		if !ok {
			c.skipped++
			return
		}
		for i := range g.Count {
			c.positions.At(mdp3.Statistics(g.Entry(i)))
		}
		c.entries[template] += uint64(g.Count)
	case mdp3.ChannelReset:
		c.positions.Clear()
	}
}

// bookEntry applies one entry of a book refresh.
func (c *Channel) bookEntry(e *mdp3.BookEntry) {
	s := c.positions.At(e.Security(), e.RptSeq())
	side := 0
	switch e.Type() {
	case '0':
		side = book.Bid
	case '1':
		side = book.Offer
	case 'E':
		side = book.ImpliedBid
	case 'F':
		side = book.ImpliedOffer
	case 'J':
		s.Reset()
		return
	default:
		return // opening prices, limits and the like: no levels
	}
	c.positions.Apply(s, book.Update{Action: e.Action(), Side: side, Level: int(e.Level()),
		Entry: book.Entry{Price: e.Price(), Size: e.Size(), Orders: e.Orders()}})
}
