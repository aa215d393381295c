package main

import (
	"encoding/binary"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

const (
	windowSlots = 1024
	mostWindow  = 512

	messageRequest = 1
	fillAt         = 40
)

type slotState uint8

const (
	slotDone slotState = iota
	slotWaiting
	slotAbandoned
)

// window is c/window.h: requests outstanding on one flow, and what became of each.
type window struct {
	outstanding       int
	sequence, highest uint64 // of the last request; answered
	slots             [windowSlots]struct {
		sequence uint64
		sent     clock.Time
		state    slotState
	}
}

// makeMessage writes a message of flow 0, as c/message.h draws it.
func makeMessage(m []byte, kind uint32, sequence uint64) {
	m = m[:messageSize:messageSize]
	clear(m)
	binary.LittleEndian.PutUint32(m, messageMagic)
	binary.LittleEndian.PutUint32(m[kindAt:], kind)
	binary.LittleEndian.PutUint64(m[sequenceAt:], sequence)
	for i := range uint64(3) {
		binary.LittleEndian.PutUint64(m[fillAt+8*i:], (sequence+i+1)*0x9e3779b97f4a7c15)
	}
}

// request makes the next message, sent now. A request that is still not answered when its slot comes round again has been overtaken by a
// thousand others: it is lost.
func (w *window) request(m *meter, out []byte, now clock.Time) {
	w.sequence++
	makeMessage(out, messageRequest, w.sequence)
	s := &w.slots[w.sequence%windowSlots]
	if s.state == slotWaiting {
		w.outstanding--
		m.reading.Lost++
	}
	s.sequence, s.sent, s.state = w.sequence, now, slotWaiting
	w.outstanding++
	m.reading.Sent++
}

// answer judges what came back.
func (w *window) answer(m *meter, in []byte, now clock.Time) {
	r := &m.reading
	var want [messageSize]byte
	var sequence uint64
	if len(in) == messageSize {
		sequence = binary.LittleEndian.Uint64(in[sequenceAt:])
	}
	makeMessage(want[:], messageRequest, sequence)
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
	w.outstanding--
	m.answer(s.sent, now)
}

// abandon gives up all that waits.
func (w *window) abandon(m *meter) {
	for i := range w.slots {
		if s := &w.slots[i]; s.state == slotWaiting {
			s.state = slotAbandoned
			w.outstanding--
			m.reading.Lost++
			m.reading.Timeouts++
		}
	}
}
