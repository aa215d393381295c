package ip_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/udp"
)

// queued is a frame of n bytes that waits for a link.
func (w *world) queued(link, n int, token uint64) {
	w.T.Helper()
	p, err := w.Pool.Alloc(n)
	w.NoError(err)
	p, err = w.Pool.Transmit(p)
	w.NoError(err)
	w.IP.QueueOn(link, ip.Out{Packet: p, Token: token})
}

// left takes what a link has.
func (w *world) left(link int) {
	for _, o := range w.IP.Output(link) {
		w.Pool.FreeTransmit(o.Packet)
	}
	w.IP.Took(link, len(w.IP.Output(link)))
}

// lostAll proves that frames were lost, with an errno for those who wait for them, and that no other is queued.
func (w *world) lostAll(errno unix.Errno, n uint64, tokens ...uint64) {
	w.T.Helper()
	var list []uint64
	for _, f := range w.IP.Failures() {
		w.Equal(errno, f.Errno)
		list = append(list, f.Token)
		w.Pool.FreeTransmit(f.Packet)
	}
	w.Equal(tokens, list)
	w.UDP.ClearErrors()
	w.IP.ClearFailures()
	w.Equal(n, w.IP.Stats().Lost)
	w.Zero(w.IP.Queued())
	w.Zero(w.Pool.Ledger().Transmitting)
}

// What is queued for a link whose interface was deleted and made again is lost, and reported.
func TestRenewLosesWhatIsQueued(t *testing.T) {
	w := newWorld(t)
	w.queued(0, 60, 0)
	w.queued(0, 60, 7)
	w.IP.Renew(0, ip.Interface{Index: iface + 1, MAC: ourMAC, MTU: 1500})
	w.Empty(w.IP.Output(0))
	w.lostAll(unix.ENETDOWN, 2, 7)
}

// With no member left that sends, what is queued for the last one is lost: it does not leave by a member that the bond's peer does not
// listen to, and does not hold up the rest.
func TestLastActiveMember(t *testing.T) {
	for _, m := range []ip.Member{ip.MemberInactive, ip.MemberBackup} {
		w := bundle(t, 2)
		w.IP.SetMember(0, ip.MemberActive)
		w.IP.SetMember(1, m)
		w.queued(0, 60, 0)
		w.queued(0, 60, 7)
		w.IP.SetMember(0, m)
		w.Empty(w.IP.Output(0))
		w.lostAll(unix.ENETDOWN, 2, 7)
	}
}

// A frame that was made for one member is lost where only a smaller one is left: that one's buffers and program do not take it.
func TestMovedToASmallerMember(t *testing.T) {
	w := newWorld(t, func(c *ip.Config) {
		smaller := c.Interfaces[0]
		smaller.MTU = 600
		c.Interfaces = append(c.Interfaces, smaller)
	})
	w.IP.SetMember(0, ip.MemberActive)
	w.IP.SetMember(1, ip.MemberActive)
	w.queued(0, 614, 1)
	w.queued(0, 615, 2)
	w.queued(0, 1514, 3)
	w.queued(0, 60, 4)
	w.IP.SetDown(0, true)
	w.Len(w.IP.Output(1), 2)
	w.Equal(2, w.IP.Queued())
	w.left(1)
	w.lostAll(unix.EMSGSIZE, 2, 2, 3)
}

// The same for one that waited for its neighbour's address meanwhile.
func TestResolvedForASmallerMember(t *testing.T) {
	for _, n := range []int{500, 1000} {
		w := newWorld(t, func(c *ip.Config) {
			smaller := c.Interfaces[0]
			smaller.MTU = 600
			c.Interfaces = append(c.Interfaces, smaller)
		})
		w.IP.SetMember(0, ip.MemberActive)
		w.IP.SetMember(1, ip.MemberInactive)
		id := w.Socket(udp.Endpoint{Local: us})
		_, err := w.Send(id, peer, 9, string(make([]byte, n)))
		w.NoError(err)
		w.Out() // the question
		w.IP.SetMember(1, ip.MemberActive)
		w.IP.SetDown(0, true)
		w.KnowPeer()
		w.IP.Refresh()
		if n == 500 {
			w.Len(w.IP.Output(1), 1)
			w.left(1)
		} else {
			w.lostAll(unix.EMSGSIZE, 1)
		}
	}
}
