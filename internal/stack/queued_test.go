package stack

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/udp"
)

// queued is a frame of n bytes that waits for a link.
func (w *world) queued(link, n int, token uint64) {
	w.t.Helper()
	p, err := w.pool.Alloc(n)
	w.NoError(err)
	p, err = w.pool.Transmit(p)
	w.NoError(err)
	w.s.queue(link, Out{Packet: p, Token: token})
}

// left takes what a link has.
func (w *world) left(link int) {
	for _, o := range w.s.Output(link) {
		w.s.giveBack(o.Packet)
	}
	w.s.Took(link, len(w.s.Output(link)))
}

// lostAll proves that frames were lost, with an errno for those who wait for them, and that no other is queued.
func (w *world) lostAll(errno unix.Errno, n uint64, tokens ...uint64) {
	w.t.Helper()
	var list []uint64
	for _, f := range w.s.Failures() {
		w.Equal(errno, f.Errno)
		list = append(list, f.Token)
		w.s.giveBack(f.Packet)
	}
	w.Equal(tokens, list)
	w.s.Clear()
	w.Equal(n, w.s.Stats().Lost)
	w.Zero(w.s.Backlog())
	w.Zero(w.pool.Ledger().Transmitting)
}

// What is queued for a link whose interface was deleted and made again was the old one's: it is lost, and told.
func TestRenewLosesWhatIsQueued(t *testing.T) {
	w := newWorld(t)
	w.queued(0, 60, 0)
	w.queued(0, 60, 7)
	w.s.Renew(0, Interface{Index: iface + 1, MAC: ourMAC, MTU: 1500})
	w.Empty(w.s.Output(0))
	w.lostAll(unix.ENETDOWN, 2, 7)
}

// With no member left that sends, what is queued for the last one is lost: it does not leave by a member that the bond's peer does not
// listen to, and does not hold up the rest.
func TestLastActiveMember(t *testing.T) {
	for _, m := range []Member{MemberInactive, MemberBackup} {
		w := bundle(t, 2)
		w.s.SetMember(0, MemberActive)
		w.s.SetMember(1, m)
		w.queued(0, 60, 0)
		w.queued(0, 60, 7)
		w.s.SetMember(0, m)
		w.Empty(w.s.Output(0))
		w.lostAll(unix.ENETDOWN, 2, 7)
	}
}

// A frame that was made for one member is lost where only a smaller one is left: that one's buffers and program do not take it.
func TestMovedToASmallerMember(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		smaller := c.Interfaces[0]
		smaller.MTU = 600
		c.Interfaces = append(c.Interfaces, smaller)
	})
	w.s.SetMember(0, MemberActive)
	w.s.SetMember(1, MemberActive)
	w.queued(0, 614, 1)
	w.queued(0, 615, 2)
	w.queued(0, 1514, 3)
	w.queued(0, 60, 4)
	w.s.SetDown(0, true)
	w.Len(w.s.Output(1), 2)
	w.Equal(2, w.s.Backlog())
	w.left(1)
	w.lostAll(unix.EMSGSIZE, 2, 2, 3)
}

// The same for one that waited for its neighbour's address meanwhile.
func TestResolvedForASmallerMember(t *testing.T) {
	for _, n := range []int{500, 1000} {
		w := newWorld(t, func(c *Config) {
			smaller := c.Interfaces[0]
			smaller.MTU = 600
			c.Interfaces = append(c.Interfaces, smaller)
		})
		w.s.SetMember(0, MemberActive)
		w.s.SetMember(1, MemberInactive)
		id := w.socket(udp.Endpoint{Local: us})
		_, err := w.send(id, peer, 9, string(make([]byte, n)))
		w.NoError(err)
		w.out() // the question
		w.s.SetMember(1, MemberActive)
		w.s.SetDown(0, true)
		w.known()
		w.s.Refresh()
		if n == 500 {
			w.Len(w.s.Output(1), 1)
			w.left(1)
		} else {
			w.lostAll(unix.EMSGSIZE, 1)
		}
	}
}

// What a socket that is closed has left in the lists is nobody's: another socket with its number does not recall it.
func TestRecallOfANumberThatIsUsedAgain(t *testing.T) {
	w := newWorld(t)
	w.known()
	w.s.Refresh()
	first := w.socket(udp.Endpoint{Local: us})
	way, e := w.s.Prepare(w.now, first, peer, 9)
	w.Zero(e)
	w.True(w.put(way, "sent before the close"))
	w.s.Remove(w.now, first)
	second := w.socket(udp.Endpoint{Local: us})
	w.Equal(first, second)
	way, e = w.s.Prepare(w.now, second, peer, 9)
	w.Zero(e)
	w.True(w.put(way, "aborted"))
	w.Equal(1, w.s.Recall(second))
	w.Len(w.out(), 1)
}
