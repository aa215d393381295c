package ringtest

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/socketxtreme/socketxtreme/ring"
)

// pathChanges takes the link away and gives it back: each time every socket receives one event that carries nothing else and its user
// data, and its path has the reason for as long as it lasts. A ring whose sockets have one way only never has the event, and says why.
func pathChanges(t *testing.T, b Backend) {
	w := newWorld(t, b)
	one, two := w.udp(w.local), w.udp(w.local)
	if why := one.Ring().Why(ring.CapPathChanges); !b.Caps.Has(ring.CapPathChanges) {
		w.NotEmpty(why.Code)
		t.Logf("never: %s: %s", why.Code, why.Text)
		w.write(w.udpPeer(one.LocalAddr()), []byte("x"))
		c := w.event(one, ring.EventPacket, nil)
		w.release(c)
		w.silent(5 * time.Millisecond)
		return
	}
	peers, ok := w.peers.(Fickle)
	if !ok {
		t.Skip("this ring's link cannot be taken away and given back")
	}
	for i, s := range []*ring.Socket{one, two} {
		s.SetUserData(uint64(100 + i))
	}
	peer, number := w.udpPeer(one.LocalAddr()), 0
	works := func() {
		// The other end's interface may not have noticed yet that it has a cable again, and then it drops what it is to send.
		for end, arrived := time.Now().Add(patience), false; !arrived; {
			w.True(time.Now().Before(end), "%v", one.Path())
			number++
			last := fmt.Sprint(number)
			w.write(peer, []byte(last))
			for again := time.Now().Add(20 * time.Millisecond); !arrived && time.Now().Before(again); w.poll() {
				for len(w.kept) > 0 {
					c := w.kept[0]
					w.kept = w.kept[1:]
					w.Equal("PACKET", c.Events.String())
					arrived = arrived || string(c.Packet.Bytes()) == last
					w.release(c)
				}
			}
		}
		w.silent(5 * time.Millisecond)
	}
	works()
	before := one.Path()
	w.Equal("bypass", before.Tier)
	told := func() {
		for i, s := range []*ring.Socket{one, two} {
			c := w.event(s, ring.EventPath, nil)
			w.Equal(uint64(100+i), c.UserData)
			w.False(c.Packet.Valid())
			w.Equal(netip.AddrPort{}, c.Source)
		}
		w.silent(5 * time.Millisecond)
	}
	for range 3 {
		peers.Lose()
		told()
		lost := one.Path()
		w.Equal("kernel", lost.Tier)
		w.NotEqual(before.Reasons, lost.Reasons)
		w.True(slices.ContainsFunc(lost.Reasons, func(r ring.Reason) bool { return r.Code == lost.Lost }), "%s", lost.Explain())
		w.Equal("kernel (bypass lost: "+lost.Lost+")", lost.String())
		peers.Restore()
		told()
		w.Equal(before.Explain(), one.Path().Explain())
		works()
	}

	// The callback does not see EventPath. A socket that was made meanwhile is notified of the return.
	w.NoError(one.SetReceiveMode(ring.Completions, func(*ring.Socket, *ring.Completion) ring.Verdict {
		w.Fail("the callback was called")
		return ring.Drop
	}))
	peers.Lose()
	w.event(one, ring.EventPath, nil)
	w.event(two, ring.EventPath, nil)
	late := w.udp(w.local)
	w.Equal("kernel", late.Path().Tier)
	peers.Restore()
	for _, s := range []*ring.Socket{one, two, late} {
		w.event(s, ring.EventPath, nil)
	}
	w.closeAndWait(late)
	peers.Lose()
	w.event(one, ring.EventPath, nil)
	peers.Restore()
	w.event(one, ring.EventPath, nil)
}
