package command

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/cmd/xtstat/internal/why"
	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/stats"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// What the program itself does to packets is found: datagrams that it has room for in part, those that its callback drops, connections that its
// full listener refuses. A group that another process leaves is none of its own.
func TestWhyOfTheProgram(t *testing.T) {
	dropping := false
	v := newVictim(t, conf.RingEpoll, xtreme.UDPConfig{LargestDatagram: 1000, SocketConfig: xtreme.SocketConfig{
		ReceiveCallback: func(_ *xtreme.Socket, c *xtreme.Completion) xtreme.Verdict {
			if dropping {
				return xtreme.Drop
			}
			return xtreme.Keep
		}}})
	device, err := net.InterfaceByName(v.net.Device(0))
	v.NoError(err)
	other, err := net.ListenMulticastUDP("udp4", device, &net.UDPAddr{IP: net.IPv4(239, 7, 7, 7), Port: 7777})
	v.NoError(err)
	v.flowSamples(4) // the group was there when the window of why begins
	listener, err := v.poller.ListenTCP(netip.AddrPortFrom(v.net.Local(0), 0), xtreme.ListenConfig{Backlog: 1})
	v.NoError(err)

	at := time.Now()
	v.NoError(other.Close())
	v.connect(listener.LocalAddr(), 20) // nobody polls meanwhile
	const cut, dropped = 30, 150
	for range cut {
		_, err := v.peer.Write(make([]byte, 3000)) // longer than a small buffer
		v.NoError(err)
		v.pollFor(time.Millisecond)
	}
	dropping = true
	for range dropped {
		v.send(1)
		v.poll()
	}
	v.until(stats.Rings, "callback_drops", dropped)
	dropping = false
	v.engine.Note(xtreme.NoteFeedGap, dropped, "deep 1-150 missing on a")
	list := v.why(at)
	v.EqualValues(cut, v.sum(list, "were cut", why.Socket))
	v.EqualValues(dropped, v.sum(list, "receive callback", why.Application))
	v.NotZero(v.sum(list, "a listener was full", why.Socket, why.Application, why.Kernel, why.Ring))
	v.EqualValues(1, v.sum(list, "another process", why.Kernel))
	for _, f := range list {
		v.NotEqual(why.Upstream, f.Place, "%+v", f)
		v.NotContains(f.Cause, "a membership was lost")
	}
}

// connect has so many connections begin to an address, from the peer, without waiting for them.
func (v *victim) connect(to netip.AddrPort, n int) {
	v.net.InPeer(func() {
		for range n {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
			v.NoError(err)
			v.t.Cleanup(func() { unix.Close(fd) })
			v.ErrorIs(unix.Connect(fd, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}), unix.EINPROGRESS)
		}
	})
}

// The program holds packets of a kernel's ring: reading stops, and the kernel's buffer becomes full. That is the program's, whatever short gap
// between polls there is.
func TestWhyHeldOnAKernelRing(t *testing.T) {
	v := newVictim(t, conf.RingEpoll, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReceiveBuffer: 16 << 10}}, func(s *conf.Settings) { s.SmallBuffers = 256 })
	v.flowSamples(1)
	at := time.Now()
	v.hold = true
	for end := at.Add(1500 * time.Millisecond); time.Now().Before(end); {
		v.send(20)
		v.pollFor(5 * time.Millisecond)
	}
	v.until(stats.Sockets, "drops", 1)
	list := v.why(at.Add(time.Second))
	held := uint64(0)
	for _, f := range list {
		if strings.Contains(f.Cause, "are not released") {
			v.Equal(why.Application, f.Place)
			held += f.Count
		}
	}
	v.Equal(v.total(stats.Sockets, "drops"), held, "%+v", list)
}
