package handler

import (
	"github.com/socketxtreme/socketxtreme/feed"
	"github.com/socketxtreme/socketxtreme/feed/book"
	"github.com/socketxtreme/socketxtreme/feed/mdp3"
)

// parseCME decodes the header of a CME packet into a segment.
func (c *Channel) parseCME(b []byte, s *feed.Segment[Ref]) verdict {
	p, messages, err := mdp3.Parse(b)
	if err != nil {
		return malformed
	}
	if m, _ := mdp3.Next(messages); m != nil && m.Schema() != 1 {
		return foreign
	}
	s.Seq, s.Count, s.Sent = uint64(p.Seq()), 1, p.SendingTime()
	return good
}

// applyCME applies one MDP 3.0 message to the books.
func (c *Channel) applyCME(b []byte) error {
	m := mdp3.Message(b)
	template := m.Template()
	kind := min(int(template), len(c.types)-1)
	c.types[kind]++
	var least int
	switch template {
	case mdp3.Book32, mdp3.Book46:
		least = mdp3.BookEntryLen
	case mdp3.TradeSummary42, mdp3.TradeSummary48:
		least = mdp3.TradeEntryLen
	case mdp3.Volume37:
		least = mdp3.VolumeEntryLen
	case mdp3.SessionStatistics35, mdp3.SessionStatistics51:
		least = mdp3.StatisticsEntryLen
	case mdp3.ChannelReset4:
		c.levels.Clear()
		return nil
	default:
		return m.Check()
	}
	g, err := m.Group(least)
	if err != nil {
		return err
	}
	c.entries[kind] += uint64(g.Count)
	for i := range g.Count {
		switch e := g.Entry(i); least {
		case mdp3.BookEntryLen:
			c.bookEntry((*mdp3.BookEntry)(e))
		case mdp3.TradeEntryLen:
			t := (*mdp3.TradeEntry)(e)
			c.levels.CountUpdate(t.Security(), t.RptSeq())
			c.trade(uint64(max(t.Size(), 0)))
		case mdp3.VolumeEntryLen:
			v := (*mdp3.VolumeEntry)(e)
			c.levels.CountUpdate(v.Security(), v.RptSeq())
		case mdp3.StatisticsEntryLen:
			s := (*mdp3.StatisticsEntry)(e)
			c.levels.CountUpdate(s.Security(), s.RptSeq())
		}
	}
	if least == mdp3.BookEntryLen {
		c.published++
	}
	return nil
}

// bookEntry applies one entry of a book message.
func (c *Channel) bookEntry(e *mdp3.BookEntry) {
	s := c.levels.CountUpdate(e.Security(), e.RptSeq())
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
	c.levels.Apply(s, book.Update{Action: book.Action(e.Action()), Side: side, Level: int(e.Level()),
		Entry: book.Entry{Price: e.Price(), Size: e.Size(), Orders: e.Orders()}})
}
