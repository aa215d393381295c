package ringtest

import (
	"net"
	"testing"
	"time"

	"github.com/socketxtreme/socketxtreme/ring"
)

// transmitStamps: each datagram's stamp says when it left, and which it was; a sleeping ring wakes for it. A ring without transmit stamps
// refuses.
func transmitStamps(t *testing.T, b Backend) {
	w := newWorld(t, b)
	if !b.Caps.Has(ring.CapTxTimestamps) {
		u := w.socket(ring.KindDatagram, w.local, ring.Config{TxTimestamps: true})
		err := u.Bind(w.local)
		w.ErrorIs(err, ring.ErrNotSupported)
		other := w.udp(w.local)
		w.ErrorContains(err, other.Ring().Why(ring.CapTxTimestamps).Text)
		w.NoError(u.Abort())
		return
	}
	for _, wait := range []bool{false, true} {
		u := w.udp(w.local, ring.Config{TxTimestamps: true})
		peer := w.udpPeer(u.LocalAddr())
		to := peer.LocalAddr().(*net.UDPAddr).AddrPort()
		w.poll()
		before := time.Now()
		_, err := u.SendTo([]byte("zero"), to)
		w.NoError(err)
		_, err = u.SendVector([][]byte{[]byte("one")}, to)
		w.NoError(err)
		w.NoError(u.SendPacket(w.packet([]byte("two")), to, 77))
		_, err = u.SendTo([]byte("three"), to)
		w.NoError(err)
		w.event(u, ring.EventSent, nil)
		for _, token := range []uint64{0, 1, 77, 3} {
			for wait && len(w.kept) == 0 {
				w.NoError(u.Ring().Wait(patience))
				w.poll()
				w.Less(time.Since(before), patience/2)
			}
			c := w.event(u, ring.EventTxTimestamp, nil)
			w.Equal(token, c.Token)
			w.Equal(ring.StampSoftware, c.Time.Source)
			w.WithinRange(c.Time.Time(), before.Add(-time.Millisecond), time.Now().Add(time.Millisecond))
			w.True(c.Packet.IsZero())
		}
		// What it receives is not stamped: that was not asked for.
		w.write(peer, []byte("x"))
		c := w.event(u, ring.EventPacket, nil)
		w.True(c.Time.IsZero())
		w.release(c)
		// Nothing of it keeps the ring from sleeping, nor from closing.
		_, err = u.SendTo([]byte("unheard"), to)
		w.NoError(err)
		w.closeAndWait(u)
		w.Zero(u.Ring().Stats().StampsMissing)
	}

	// Both ways at once, paced, over more datagrams than the kernel reports at a time.
	u := w.udp(w.local, ring.Config{TxTimestamps: true, Timestamps: true, PacketInfo: true})
	peer := w.udpPeer(u.LocalAddr())
	to := peer.LocalAddr().(*net.UDPAddr).AddrPort()
	w.NoError(u.SetPacing(ring.Pacing{Rate: 5_000_000, Burst: 3000}))
	const n = 200
	last := int64(0)
	for i := range n {
		_, err := u.SendTo(numbered(i, 1000), to)
		w.NoError(err)
	}
	for i := range n {
		c := w.event(u, ring.EventTxTimestamp, nil)
		w.Equal(uint64(i), c.Token)
		w.GreaterOrEqual(c.Time.Nanos, last)
		last = c.Time.Nanos
	}
	w.write(peer, []byte("x"))
	c := w.event(u, ring.EventPacket, nil)
	w.Equal(ring.StampSoftware, c.Time.Source)
	w.NotZero(c.IfIndex)
	w.release(c)
	w.Equal(uint64(n+8), u.Ring().Stats().Stamped)
}

// stampAllocation is the case "transmit stamps allocate nothing".
func stampAllocation(t *testing.T, b Backend) {
	switch {
	case raceEnabled:
		t.Skip("the race detector allocates by itself; the build without it asserts this")
	case !b.Caps.Has(ring.CapTxTimestamps):
		t.Skip("this ring has no transmit stamps, which another case asserts")
	}
	w := newWorld(t, b)
	u := w.udp(w.local, ring.Config{TxTimestamps: true})
	to := w.udpPeer(u.LocalAddr()).LocalAddr().(*net.UDPAddr).AddrPort()
	dst := make([]ring.Completion, 8)
	turn := func() {
		if _, err := u.SendTo([]byte("x"), to); err != nil {
			t.Fatal(err)
		}
		for {
			n, err := u.Ring().Poll(dst)
			if err != nil {
				t.Fatal(err)
			}
			if n == 1 {
				break
			}
		}
		if dst[0].Events != ring.EventTxTimestamp {
			t.Fatal(dst[0].Events)
		}
	}
	for range 100 {
		turn()
	}
	w.Zero(testing.AllocsPerRun(500, turn))
}

// noCard: the loopback interface, a memory link and a veth have no card: the stamps stay what they are, and the path says why.
func noCard(t *testing.T, b Backend) {
	w := newWorld(t, b)
	source := b.Stamp
	if source == ring.StampNone {
		source = ring.StampSoftware
	}
	for how := ring.HardwareTimestampsRaw; how <= ring.HardwareTimestampsPTP; how++ {
		u := w.udp(w.local, ring.Config{Timestamps: true, HardwareTimestamps: how})
		w.write(w.udpPeer(u.LocalAddr()), []byte("x"))
		c := w.event(u, ring.EventPacket, nil)
		w.Equal(source, c.Time.Source, "%v", how)
		w.NotZero(c.Time.Nanos)
		w.release(c)
		var codes []string
		for _, r := range u.Path().Reasons {
			codes = append(codes, r.Code)
		}
		if w.set.Rings()[0].Kind() != "offload" || b.Stamp == ring.StampNone {
			w.Contains(codes, "card.no_stamps", "%v", u.Path())
		}
		w.closeAndWait(u)
	}
}

// stampArguments is the case "settings of time are checked".
func stampArguments(t *testing.T, b Backend) {
	w := newWorld(t, b)
	w.udp(w.local) // so that there is a ring
	for _, test := range []struct {
		c     ring.Config
		names string
	}{
		{ring.Config{Timestamps: true, HardwareTimestamps: 5}, "card time 5"},
		{ring.Config{HardwareTimestamps: ring.HardwareTimestampsSync}, "without timestamps"},
		{ring.Config{Timestamps: true, HardwareTimestamps: ring.HardwareTimestampsSync, TAIOffset: 37 * time.Second}, "37s"},
		{ring.Config{Timestamps: true, HardwareTimestamps: ring.HardwareTimestampsPTP, TAIOffset: -time.Second}, "-1s"},
		{ring.Config{Timestamps: true, HardwareTimestamps: ring.HardwareTimestampsPTP, TAIOffset: 1500 * time.Millisecond}, "1.5s"},
	} {
		_, err := w.set.NewSocket(ring.KindDatagram, ring.IPv4, test.c)
		w.ErrorContains(err, test.names)
	}
	if b.Datagrams {
		return
	}
	l := w.socket(ring.KindStream, w.local, ring.Config{TxTimestamps: true})
	w.NoError(l.Bind(w.local))
	err := l.Listen(0)
	w.ErrorIs(err, ring.ErrNotSupported)
	w.ErrorContains(err, "stream")
	w.NoError(l.Abort())
}
