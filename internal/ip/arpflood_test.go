package ip_test

import (
	"testing"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/ip/iptest"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/udp"
)

// Requests or replies under many made-up addresses, in the subnet and outside, keep no neighbour from being found: neighbours are still
// asked for, those in use stay, and no route is prepared anew for it.
func TestARPFlood(t *testing.T) {
	w := newWorld(t)
	id := w.Socket(udp.Endpoint{Local: us})
	w.KnowPeer()
	_, err := w.Send(id, peer, 9, "x")
	w.NoError(err)
	w.Only()
	before := *w.IP.RouteGeneration()
	for i := range 4 * ip.TableLimit {
		mac := wire.MAC{2, 9, 9, 9, byte(i >> 8), byte(i)}
		sender := wire.Addr{10, 0, byte(i >> 8), byte(i)}
		if sender == us || sender == peer || sender == gateway {
			continue
		}
		w.In(iptest.ARPFrame(wire.ARPRequest, mac, sender, wire.MAC{}, us), iptest.ARPFrame(wire.ARPReply, mac, sender, ourMAC, us))
		w.Out()
		if i%512 == 0 {
			w.After(time.Millisecond)
			w.Out()
		}
	}
	w.LessOrEqual(w.LocalHost.NumNeighbours(), ip.TableLimit/2)
	w.Equal(before, *w.IP.RouteGeneration(), "routes are good as they were")
	_, err = w.Send(id, peer, 9, "x")
	w.NoError(err)
	s, _, _ := w.ParseUDP(w.Only())
	w.Equal(peerMAC, s.Eth.Target())

	_, err = w.Send(id, far, 9, "by the gateway")
	w.NoError(err)
	_, a := w.ParseARP(w.Only())
	w.Equal(gateway, a.TargetAddr(), "it is asked for")
	w.In(iptest.ARPFrame(wire.ARPReply, gwMAC, gateway, ourMAC, us))
	w.IP.Refresh()
	s, _, _ = w.ParseUDP(w.Only())
	w.Equal(gwMAC, s.Eth.Target())

	// Nor does the stack's own asking for many that are not there.
	for i := range 2 * ip.TableLimit {
		w.LocalHost.Resolve(target(wire.Addr{10, 0, byte(i >> 8), byte(i)}))
		w.Out()
	}
	w.LessOrEqual(w.LocalHost.NumNeighbours(), ip.TableLimit)
	for range ip.AskTries {
		w.After(time.Second)
		w.Out()
	}
	w.LocalHost.Resolve(target(wire.Addr{10, 0, 200, 200}))
	_, a = w.ParseARP(w.Only())
	w.Equal(wire.Addr{10, 0, 200, 200}, a.TargetAddr())
}
