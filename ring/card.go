package ring

import (
	"time"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/phc"
)

// CardClock is a network card's clock that can be compared with the system's.
type CardClock interface {
	// Compare reads both clocks at the same instant: nanoseconds of the card's clock, and since the Unix epoch.
	Compare() (card, system int64, err error)
	Close() error
}

// card is a ring's view of the clock of one interface's network card.
type card struct {
	index       uint32
	clock       CardClock
	why         Reason // why there is no clock; zero when there is one
	sync        Sync
	tai         time.Duration // as the kernel has it
	next        clock.Time    // when the clocks are compared again
	checkedTurn uint64        // turn in which the time was last looked at
}

const (
	compareEvery = time.Second // VMA: UPDATE_HW_TIMER_PERIOD
	// compareTurns: with busy traffic the clock is read in every so many turns only.
	compareTurns = 64
)

// openCard is the system's card of an interface.
func openCard(index int) (CardClock, error) {
	c, err := phc.Open(index)
	if err != nil {
		return nil, err // and not a CardClock that holds a nil
	}
	return c, nil
}

// card finds the clock of an interface; nil for no interface. It opens it when it is asked for the first time.
func (r *Ring) card(index uint32) *card {
	if index == 0 {
		return nil
	}
	for _, c := range r.cards {
		if c.index == index {
			return c
		}
	}
	c := &card{index: index, tai: r.tai()}
	open := openCard
	if r.set.config.Card != nil {
		open = r.set.config.Card
	}
	var err error
	if c.clock, err = open(int(index)); err != nil {
		c.why = cardReason(err)
	}
	r.cards = append(r.cards, c)
	return c
}

// cardReason is the reason for a path: why an interface has no clock that can be read.
func cardReason(err error) Reason {
	if f, ok := err.(interface{ Reason() (code, text string) }); ok {
		code, text := f.Reason()
		return Reason{Code: code, Text: text}
	}
	return Reason{Code: "card.error", Text: err.Error()}
}

// convert is HardwareTimestamps.convert for a stamp of this card. It compares the card's clock with the system's first, at most once a second
// and on every 64th Poll.
func (c *card) convert(r *Ring, how HardwareTimestamps, at int64, tai time.Duration) Stamp {
	if at == 0 {
		return Stamp{}
	}
	if c.clock != nil && how != HardwareTimestampsRaw && (c.sync.IsZero() || r.turn-c.checkedTurn >= compareTurns) {
		c.checkedTurn = r.turn
		if now := r.clock(); now >= c.next {
			c.next = now.Add(compareEvery)
			c.compare(r)
		}
	}
	if tai == 0 {
		tai = c.tai
	}
	return how.convert(at, c.sync, tai)
}

// compare reads both clocks and updates the conversion between them. When the card cannot be read the conversion is dropped.
func (c *card) compare(r *Ring) {
	card, system, err := c.clock.Compare()
	if err != nil {
		c.sync = Sync{}
		c.why = Reason{Code: "card.unreadable", Text: err.Error()}
		r.stats.CardFailures++
		return
	}
	c.why = Reason{}
	c.sync = c.sync.Follow(card, system)
	c.tai = r.tai()
}

// tai is how far TAI is ahead of the Unix clock as the kernel has it; 0 with SetConfig.Card, where only the socket knows it (Config.TAIOffset).
func (r *Ring) tai() time.Duration {
	if r.set.config.Card != nil {
		return 0
	}
	return phc.TAI()
}

// interfaceOf is the interface a socket is tied to by its device or address; 0 for none.
func (r *Ring) interfaceOf(s *Socket) int {
	if s.active().device != 0 {
		return s.active().device
	}
	return s.localInterface()
}

// convertHardwareTimestamp replaces the datagram's time by the network card's stamp, if the socket asked for that and the stamp can be
// converted.
func (r *Ring) convertHardwareTimestamp(s *Socket, m *Meta) {
	if s.config().HardwareTimestamps == HardwareTimestampsOff || !s.config().Timestamps {
		return
	}
	index := m.IfIndex
	if index == 0 {
		index = uint32(r.interfaceOf(s))
	}
	if c := r.card(index); c != nil {
		if at := c.convert(r, s.config().HardwareTimestamps, m.RawHardware, s.config().TAIOffset); !at.IsZero() {
			m.Time = at
		}
	}
}

// cardReasons appends the reasons for which the socket's timestamps do not come from a network card, if it asked for such.
func (s *Socket) cardReasons(reasons []Reason) []Reason {
	if s.config().HardwareTimestamps == HardwareTimestampsOff || s.ring() == nil {
		return reasons
	}
	index := s.ring().interfaceOf(s)
	if index != 0 {
		s.ring().card(uint32(index)) // opened now if it was not, so that its reason is known
	}
	for _, c := range s.ring().cards {
		if c.why.Code != "" && (index == 0 || c.index == uint32(index)) {
			reasons = append(reasons[:len(reasons):len(reasons)], c.why)
		}
	}
	return reasons
}

// closeCards closes the clocks that card opened. Ring.Close calls it.
func (r *Ring) closeCards() {
	for _, c := range r.cards {
		if c.clock != nil {
			if err := c.clock.Close(); err != nil {
				r.fail(&OpError{Op: "close card clock", Err: err})
			}
		}
	}
	r.cards = nil
}
