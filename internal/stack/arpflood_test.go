package stack

import (
	"testing"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/udp"
)

// Requests or replies under many made-up addresses, in the subnet and outside, keep no neighbour from being found: neighbours are still
// asked for, those in use stay, and no route is prepared anew for it.
func TestARPFlood(t *testing.T) {
	w := newWorld(t)
	id := w.socket(udp.Endpoint{Local: us})
	w.known()
	_, err := w.send(id, peer, 9, "x")
	w.NoError(err)
	w.only()
	before := *w.s.Stamp()
	for i := range 4 * tableLimit {
		mac := wire.MAC{2, 9, 9, 9, byte(i >> 8), byte(i)}
		sender := wire.Addr{10, 0, byte(i >> 8), byte(i)}
		if sender == us || sender == peer || sender == gateway {
			continue
		}
		w.in(arpFrame(wire.ARPRequest, mac, sender, wire.MAC{}, us), arpFrame(wire.ARPReply, mac, sender, ourMAC, us))
		w.out()
		if i%512 == 0 {
			w.after(time.Millisecond)
			w.out()
		}
	}
	w.LessOrEqual(len(w.s.own.entries), tableLimit/2)
	w.Equal(before, *w.s.Stamp(), "routes are good as they were")
	_, err = w.send(id, peer, 9, "x")
	w.NoError(err)
	s, _, _ := w.udp(w.only())
	w.Equal(peerMAC, s.eth.Target())

	_, err = w.send(id, far, 9, "by the gateway")
	w.NoError(err)
	_, a := w.arp(w.only())
	w.Equal(gateway, a.TargetAddr(), "it is asked for")
	w.in(arpFrame(wire.ARPReply, gwMAC, gateway, ourMAC, us))
	w.s.Refresh()
	s, _, _ = w.udp(w.only())
	w.Equal(gwMAC, s.eth.Target())

	// Nor does the stack's own asking for many that are not there.
	for i := range 2 * tableLimit {
		w.s.own.Resolve(w.s.targetOf(&route{hop: wire.Addr{10, 0, byte(i >> 8), byte(i)}, iface: iface}))
		w.out()
	}
	w.LessOrEqual(len(w.s.own.entries), tableLimit)
	for range askTries {
		w.after(time.Second)
		w.out()
	}
	w.s.own.Resolve(w.s.targetOf(&route{hop: wire.Addr{10, 0, 200, 200}, iface: iface}))
	_, a = w.arp(w.only())
	w.Equal(wire.Addr{10, 0, 200, 200}, a.TargetAddr())
}
