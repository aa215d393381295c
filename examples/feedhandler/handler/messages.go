package handler

import (
	"github.com/socketxtreme/socketxtreme/feed"
	"github.com/socketxtreme/socketxtreme/feed/iextp"
	"github.com/socketxtreme/socketxtreme/feed/mdp3"
	"github.com/socketxtreme/socketxtreme/feed/moldudp64"
	"github.com/socketxtreme/socketxtreme/feed/pitch"
)

// verdict is what parsing a packet came to.
type verdict uint8

const (
	good verdict = iota
	malformed
	foreign
	unsequenced // applied as it comes
)

// parse turns a packet into what it claims.
func (c *Channel) parse(b []byte, s *feed.Segment[Ref]) verdict {
	switch c.proto {
	case DEEP, TOPS:
		return c.parseIEX(b, s)
	case MDP3:
		return c.parseCME(b, s)
	case MoldUDP64:
		return c.parseNasdaq(b, s)
	case PITCH:
		return c.parseCboe(b, s)
	}
	return foreign
}

// isOther reports whether a packet belongs to another channel than the first packet did.
func (c *Channel) isOther(id uint64) bool {
	if c.identified && c.id != id {
		return true
	}
	c.identified, c.id = true, id
	return false
}

// apply decodes count messages of a packet behind the first skip ones, into the books.
func (c *Channel) apply(packet []byte, skip, count uint32) {
	switch c.proto {
	case DEEP, TOPS:
		c.each(packet[iextp.HeaderLen:], iextp.Next, skip, count)
	case MoldUDP64:
		c.each(packet[moldudp64.HeaderLen:], moldudp64.Next, skip, count)
	case PITCH:
		c.each(packet[pitch.HeaderLen:], pitch.Next, skip, count)
	case MDP3: // the sequence counts packets
		for m, rest := mdp3.Next(packet[mdp3.HeaderLen:]); m != nil; m, rest = mdp3.Next(rest) {
			c.message(m)
		}
	}
}

// each applies count messages of a packet after the first skip ones. next takes the first message off the rest.
func (c *Channel) each(messages []byte, next func([]byte) (m, rest []byte), skip, count uint32) {
	for m, rest := next(messages); m != nil && count > 0; m, rest = next(rest) {
		if skip > 0 {
			skip--
			continue
		}
		count--
		c.message(m)
	}
}

// message applies one message. One that cannot be decoded is counted.
func (c *Channel) message(m []byte) {
	c.messages++
	var err error
	switch c.proto {
	case DEEP, TOPS:
		err = c.applyIEX(m)
	case MoldUDP64, ITCH:
		err = c.applyNasdaq(m)
	case PITCH:
		err = c.applyCboe(m)
	case MDP3:
		err = c.applyCME(m)
	}
	if err != nil {
		c.skipped++
	}
}
