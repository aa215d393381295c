package xtreme_test

import (
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/xtreme"
)

// The same two addresses may connect again while the former connection is in TIME-WAIT, as with the kernel's TCP: a second later at the
// earliest, when the timestamps distinguish the two (RFC 6191), and with ReuseAddr, without which bind refuses the port. Before that the error
// is that of the kernel.
func TestRedialFromTheSameAddress(t *testing.T) {
	w := newTCPCabled(t, unchanged)
	l := w.listenInPeer()
	local := netip.AddrPortFrom(w.net.Local(0), 20_000)
	dial := func() (*xtreme.Socket, error) {
		return w.poller.DialTCP(addr(l.Addr()), xtreme.DialConfig{Local: local, IPConfig: xtreme.IPConfig{ReuseAddr: true}})
	}
	s, err := dial()
	w.NoError(err)
	for again := false; ; again = true {
		w.Equal("bypass", s.Path().Tier, s.Path().Explain())
		w.event(s, xtreme.EventOut)
		var peer net.Conn
		w.beside(func() (err error) { peer, err = l.Accept(); return err })
		w.echo(s, peer, 3)
		if again {
			break
		}
		_, err = dial()
		w.ErrorIs(err, unix.EADDRNOTAVAIL, "it is connected")
		w.NoError(s.CloseWrite())
		w.beside(func() error { _, err := peer.Read(make([]byte, 1)); w.Error(err); return peer.Close() })
		w.event(s, xtreme.EventIn|xtreme.EventRdHup)
		w.close(s)
		w.until("TIME-WAIT is over for it", func() bool {
			if s, err = dial(); err != nil {
				w.ErrorIs(err, unix.EADDRNOTAVAIL)
			}
			return err == nil
		})
	}
	w.close(s)
}
