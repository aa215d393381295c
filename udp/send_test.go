package udp_test

import (
	"encoding/binary"
	"testing"

	"github.com/socketxtreme/socketxtreme/udp"
)

// put sends a payload the fast way, in two pieces.
func (w *world) put(way udp.Prepared, payload string) bool {
	b := []byte(payload)
	half := len(b) / 2
	return w.UDP.SendFast(w.Now, way.Route, way.Serial, way.Head, nil, [][]byte{b[:half], b[half:]}, len(b)) == udp.FastQueued
}

// What Put makes is what Send makes, but for the identification and the sum that it is in.
func TestPutIsSend(t *testing.T) {
	w := newWorld(t)
	w.KnowPeer()
	w.IP.Refresh()
	id := w.Socket(udp.Endpoint{Local: us, LocalPort: 53})
	way, e := w.UDP.Prepare(w.Now, id, peer, 9)
	w.Zero(e)
	w.Equal(42, way.Head)
	for _, payload := range []string{"", "x", "some payload"} {
		w.True(w.put(way, payload))
		_, err := w.Send(id, peer, 9, payload)
		w.NoError(err)
		w.Equal(2, w.IP.Queued())
		frames := w.Out()
		w.Len(frames, 2)
		for _, b := range frames {
			_, _, got := w.ParseUDP(b) // proves the sums
			w.Equal(payload, got)
			binary.BigEndian.PutUint16(b[18:], 0)
			binary.BigEndian.PutUint16(b[24:], 0)
		}
		w.Equal(frames[0], frames[1])
		w.Zero(w.IP.Queued())
	}
}

// It takes nothing that another way is right for by now, that is too long for the link, and nothing before the neighbour is known.
func TestPutRefuses(t *testing.T) {
	w := newWorld(t)
	id := w.Socket(udp.Endpoint{Local: us, LocalPort: 53})
	way, e := w.UDP.Prepare(w.Now, id, peer, 9)
	w.Zero(e)
	w.Zero(way.Head, "the neighbour is not known")
	w.KnowPeer()
	w.IP.Refresh()
	way, e = w.UDP.Prepare(w.Now, id, peer, 9)
	w.Zero(e)
	w.True(w.put(way, string(make([]byte, way.Limit))))
	w.False(w.put(way, string(make([]byte, way.Limit+1))))
	w.Len(w.Out(), 1)
	other := way
	other.Serial++
	w.False(w.put(other, "another destination has its place"))
	w.IP.SetDown(0, true)
	w.False(w.put(way, "down"))
	w.IP.SetDown(0, false)
	w.False(w.put(way, "up again: to be prepared again"))
	w.Empty(w.Out())
}

// Recall takes back what is one socket's, in the order of the rest.
func TestRecall(t *testing.T) {
	w := newWorld(t)
	w.KnowPeer()
	w.IP.Refresh()
	a, b := w.Socket(udp.Endpoint{Local: us, LocalPort: 53}), w.Socket(udp.Endpoint{Local: us, LocalPort: 54})
	first, e := w.UDP.Prepare(w.Now, a, peer, 9)
	w.Zero(e)
	second, e := w.UDP.Prepare(w.Now, b, peer, 9)
	w.Zero(e)
	w.True(w.put(first, "1"))
	w.True(w.put(second, "2"))
	w.True(w.put(first, "3"))
	_, err := w.Send(a, peer, 9, "4")
	w.NoError(err)
	w.Equal(2, w.UDP.Recall(a))
	w.Equal(2, w.IP.Queued())
	for i, want := range []string{"2", "4"} {
		frames := w.IP.Output(0)
		_, _, got := w.ParseUDP(frames[i].Packet.Bytes())
		w.Equal(want, got)
	}
	w.Zero(w.UDP.Recall(a))
	w.Len(w.Out(), 2)
}

// Frames that a closed socket left in the lists belong to no socket: a new socket with its number does not recall them.
func TestRecallOfANumberThatIsUsedAgain(t *testing.T) {
	w := newWorld(t)
	w.KnowPeer()
	w.IP.Refresh()
	first := w.Socket(udp.Endpoint{Local: us})
	way, e := w.UDP.Prepare(w.Now, first, peer, 9)
	w.Zero(e)
	w.True(w.put(way, "sent before the close"))
	w.UDP.Remove(w.Now, first)
	second := w.Socket(udp.Endpoint{Local: us})
	w.Equal(first, second)
	way, e = w.UDP.Prepare(w.Now, second, peer, 9)
	w.Zero(e)
	w.True(w.put(way, "aborted"))
	w.Equal(1, w.UDP.Recall(second))
	w.Len(w.Out(), 1)
}
