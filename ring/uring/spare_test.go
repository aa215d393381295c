package uring_test

import (
	"errors"
	"testing"
	"time"

	"github.com/socketxtreme/socketxtreme/ring"
)

// The buffer that direct reading keeps for the next datagram is the pool's while the ring sleeps: other rings of the owner may need it.
func TestRestGivesSpareBuffersBack(t *testing.T) {
	for name, rest := range map[string]func(r *ring.Ring) error{
		"Wait": func(r *ring.Ring) error { return r.Wait(time.Millisecond) },
		"Arm": func(r *ring.Ring) error {
			pending, err := r.Arm()
			if pending {
				return errors.New("something is pending")
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.udp()
			peer := w.peerOf(s)
			w.write(peer, []byte("x"))
			w.NoError(w.event(s, ring.EventPacket).Packet.Release())
			for range 8 {
				w.poll() // nothing is there: the buffer to read into is kept
			}
			before := w.pool.Ledger()
			w.NoError(rest(s.Ring()))
			after := w.pool.Ledger()
			w.Equal(before.Filling-1, after.Filling, "%v, %v", before, after)
			w.Equal(before.Free+1, after.Free)
		})
	}
}
