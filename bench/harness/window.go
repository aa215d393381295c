package harness

import (
	"encoding/binary"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

const (
	windowSlots = 1024
	MaxWindow   = 512

	messageRequest = 1
	fillAt         = 40
)

type slotState uint8

const (
	slotDone slotState = iota
	slotWaiting
	slotAbandoned
)

// Window is c/window.h: requests outstanding on one flow, and what became of each.
type Window struct {
	Outstanding       int
	sequence, highest uint64 // of the last request; answered
	slots             [windowSlots]struct {
		sequence uint64
		sent     clock.Time
		state    slotState
	}
}

// MakeRequest writes a request of flow 0, as c/message.h draws it.
func MakeRequest(m []byte, sequence uint64) {
	m = m[:MessageSize:MessageSize]
	clear(m)
	binary.LittleEndian.PutUint32(m, messageMagic)
	binary.LittleEndian.PutUint32(m[kindAt:], messageRequest)
	binary.LittleEndian.PutUint64(m[sequenceAt:], sequence)
	for i := range uint64(3) {
		binary.LittleEndian.PutUint64(m[fillAt+8*i:], (sequence+i+1)*0x9e3779b97f4a7c15)
	}
}

// Request makes the next message, sent now. A request that is still not answered when its slot comes round again has been overtaken by a
// thousand others: it is lost.
func (w *Window) Request(m *Meter, out []byte, now clock.Time) {
	w.sequence++
	MakeRequest(out, w.sequence)
	s := &w.slots[w.sequence%windowSlots]
	if s.state == slotWaiting {
		w.Outstanding--
		m.reading.Lost++
	}
	s.sequence, s.sent, s.state = w.sequence, now, slotWaiting
	w.Outstanding++
	m.reading.Sent++
}

// Answer judges what came back.
func (w *Window) Answer(m *Meter, in []byte, now clock.Time) {
	r := &m.reading
	var want [MessageSize]byte
	var sequence uint64
	if len(in) == MessageSize {
		sequence = binary.LittleEndian.Uint64(in[sequenceAt:])
	}
	MakeRequest(want[:], sequence)
	if sequence == 0 || sequence > w.sequence || string(want[:]) != string(in) {
		r.Corrupt++
		return
	}
	s := &w.slots[sequence%windowSlots]
	state := slotDone
	if s.sequence == sequence {
		state = s.state
		s.state = slotDone
	}
	switch state {
	case slotDone:
		r.Duplicated++
		return
	case slotAbandoned: // late after all
		r.Lost--
		r.OutOfOrder++
		return
	}
	if sequence < w.highest {
		r.OutOfOrder++
	} else {
		w.highest = sequence
	}
	w.Outstanding--
	m.answer(s.sent, now)
}

// Abandon gives up all that waits.
func (w *Window) Abandon(m *Meter) {
	for i := range w.slots {
		if s := &w.slots[i]; s.state == slotWaiting {
			s.state = slotAbandoned
			w.Outstanding--
			m.reading.Lost++
			m.reading.Timeouts++
		}
	}
}
