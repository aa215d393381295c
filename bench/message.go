package main

import "encoding/binary"

// The benchmark's message, as c/message.h draws it.
const (
	messageSize  = 64
	messageMagic = 0x4d425853

	messageData   = 2
	messageQuery  = 3
	messageAnswer = 4

	kindAt     = 4
	sequenceAt = 8
	receivedAt = 24
	behindAt   = 32
)

// tally is the state of a counting server: one per TCP connection, one per UDP socket. It belongs to the goroutine
// that reads the connection.
type tally struct {
	received uint64
	behind   uint64 // messages whose sequence was not above the highest before them: duplicated or out of order
	highest  uint64
}

// take counts one message of 64 bytes. It returns true when the message was a query; it has then become the answer.
func (t *tally) take(m []byte) bool {
	m = m[:messageSize:messageSize]
	if binary.LittleEndian.Uint32(m) != messageMagic {
		return false
	}
	switch binary.LittleEndian.Uint32(m[kindAt:]) {
	case messageData:
		t.received++
		if sequence := binary.LittleEndian.Uint64(m[sequenceAt:]); sequence > t.highest {
			t.highest = sequence
		} else {
			t.behind++
		}
	case messageQuery:
		binary.LittleEndian.PutUint32(m[kindAt:], messageAnswer)
		t.answer(m)
		return true
	}
	return false
}

// answer writes the counts into an answer.
func (t *tally) answer(m []byte) {
	binary.LittleEndian.PutUint64(m[receivedAt:], t.received)
	binary.LittleEndian.PutUint64(m[behindAt:], t.behind)
}
