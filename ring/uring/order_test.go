package uring_test

import (
	"net"
	"testing"

	"github.com/socketxtreme/socketxtreme/ring"
)

// Connections that are polled and read are served in the order in which their data came: one whose next request is there as soon as it was
// served waits behind the others. A Poll brings only some of them: one io_uring_enter completes about 20 polls (since Linux 6.14).
func TestPolledConnectionsAreServedInTurn(t *testing.T) {
	const connections, rounds = 200, 20
	w := newWorld(t)
	peers, served := map[*ring.Socket]*net.TCPConn{}, map[*ring.Socket]int{}
	for range connections {
		s, peer := w.pair(ring.Config{LargeStream: true})
		peers[s] = peer
	}
	for range 10 {
		w.Zero(w.poll(), "their polls are armed, nothing has come")
	}
	for _, peer := range peers {
		w.write(peer, []byte("request"))
	}
	for n := 0; n < rounds*connections; {
		for _, c := range w.kept {
			if !c.Events.Has(ring.EventPacket) {
				continue
			}
			w.NoError(c.Packet.Release())
			served[c.Socket]++
			w.write(peers[c.Socket], []byte("request"))
			n++
		}
		w.kept = w.kept[:0]
		w.poll()
	}
	least, most := rounds*connections, 0
	for s := range peers {
		least, most = min(least, served[s]), max(most, served[s])
	}
	w.LessOrEqual(most-least, 2, "the connection that was served least was served %d times", least)
}
