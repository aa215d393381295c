package harness

import "encoding/binary"

// The benchmark's message, as c/message.h draws it.
const (
	MessageSize  = 64
	messageMagic = 0x4d425853

	messageData   = 2
	messageQuery  = 3
	messageAnswer = 4

	kindAt     = 4
	sequenceAt = 8
	receivedAt = 24
	behindAt   = 32
)

// Tally is the state of a counting server: one per TCP connection, one per UDP socket. It belongs to the goroutine
// that reads the connection.
type Tally struct {
	Received uint64
	Behind   uint64 // messages whose sequence was not above the highest before them: duplicated or out of order
	highest  uint64
}

// Take counts one message of 64 bytes. It returns true when the message was a query; it has then become the answer.
func (t *Tally) Take(m []byte) bool {
	m = m[:MessageSize:MessageSize]
	if binary.LittleEndian.Uint32(m) != messageMagic {
		return false
	}
	switch binary.LittleEndian.Uint32(m[kindAt:]) {
	case messageData:
		t.Received++
		if sequence := binary.LittleEndian.Uint64(m[sequenceAt:]); sequence > t.highest {
			t.highest = sequence
		} else {
			t.Behind++
		}
	case messageQuery:
		binary.LittleEndian.PutUint32(m[kindAt:], messageAnswer)
		t.Answer(m)
		return true
	}
	return false
}

// Answer writes the counts into an answer.
func (t *Tally) Answer(m []byte) {
	binary.LittleEndian.PutUint64(m[receivedAt:], t.Received)
	binary.LittleEndian.PutUint64(m[behindAt:], t.Behind)
}
