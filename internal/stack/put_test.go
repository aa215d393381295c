package stack

import (
	"encoding/binary"
	"testing"

	"github.com/socketxtreme/socketxtreme/udp"
)

// put gives the stack a payload behind the room for its headers.
func (w *world) put(way Way, payload string) bool {
	p, frame := w.pool.Draft(way.Head, len(payload))
	w.False(p.IsZero())
	copy(frame[way.Head:], payload)
	if !w.s.Put(w.now, way.Route, way.Serial, p) {
		w.pool.Sent(p)
		return false
	}
	return true
}

// What Put makes is what Send makes, but for the identification and the sum that it is in.
func TestPutIsSend(t *testing.T) {
	w := newWorld(t)
	w.known()
	w.s.Refresh()
	id := w.socket(udp.Endpoint{Local: us, LocalPort: 53})
	way, e := w.s.Prepare(w.now, id, peer, 9)
	w.Zero(e)
	w.Equal(42, way.Head)
	for _, payload := range []string{"", "x", "some payload"} {
		w.True(w.put(way, payload))
		_, err := w.send(id, peer, 9, payload)
		w.NoError(err)
		w.Equal(2, w.s.Backlog())
		frames := w.out()
		w.Len(frames, 2)
		for _, b := range frames {
			_, _, got := w.udp(b) // proves the sums
			w.Equal(payload, got)
			binary.BigEndian.PutUint16(b[18:], 0)
			binary.BigEndian.PutUint16(b[24:], 0)
		}
		w.Equal(frames[0], frames[1])
		w.Zero(w.s.Backlog())
	}
}

// It takes nothing that another way is right for by now, that is too long for the link, and nothing before the neighbour is known.
func TestPutRefuses(t *testing.T) {
	w := newWorld(t)
	id := w.socket(udp.Endpoint{Local: us, LocalPort: 53})
	way, e := w.s.Prepare(w.now, id, peer, 9)
	w.Zero(e)
	w.Zero(way.Head, "the neighbour is not known")
	w.known()
	w.s.Refresh()
	way, e = w.s.Prepare(w.now, id, peer, 9)
	w.Zero(e)
	w.True(w.put(way, string(make([]byte, way.Limit))))
	w.False(w.put(way, string(make([]byte, way.Limit+1))))
	w.Len(w.out(), 1)
	other := way
	other.Serial++
	w.False(w.put(other, "another destination has its place"))
	w.s.SetDown(0, true)
	w.False(w.put(way, "down"))
	w.s.SetDown(0, false)
	w.False(w.put(way, "up again: to be prepared again"))
	w.Empty(w.out())
}

// Recall takes back what is one socket's, in the order of the rest.
func TestRecall(t *testing.T) {
	w := newWorld(t)
	w.known()
	w.s.Refresh()
	a, b := w.socket(udp.Endpoint{Local: us, LocalPort: 53}), w.socket(udp.Endpoint{Local: us, LocalPort: 54})
	first, e := w.s.Prepare(w.now, a, peer, 9)
	w.Zero(e)
	second, e := w.s.Prepare(w.now, b, peer, 9)
	w.Zero(e)
	w.True(w.put(first, "1"))
	w.True(w.put(second, "2"))
	w.True(w.put(first, "3"))
	_, err := w.send(a, peer, 9, "4")
	w.NoError(err)
	w.Equal(2, w.s.Recall(a))
	w.Equal(2, w.s.Backlog())
	for i, want := range []string{"2", "4"} {
		frames := w.s.Output(0)
		_, _, got := w.udp(frames[i].Packet.Bytes())
		w.Equal(want, got)
	}
	w.Zero(w.s.Recall(a))
	w.Len(w.out(), 2)
}
