package extraapi_test

import (
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/socketxtreme/socketxtreme/ring"
)

// peer is somebody else's UDP socket.
type peer struct {
	w    *world
	conn *net.UDPConn
	s    *ring.Socket
}

// peer makes one, bound.
func (w *world) peer() *peer {
	w.t.Helper()
	p := &peer{w: w}
	var err error
	if w.far != nil {
		p.s, err = w.far.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{})
		w.NoError(err)
		w.NoError(p.s.Bind(netip.AddrPortFrom(hosts[1].Addr(), 0)))
		return p
	}
	p.conn, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	w.NoError(err)
	w.NoError(p.conn.SetDeadline(time.Now().Add(3 * patience)))
	w.t.Cleanup(func() { _ = p.conn.Close() })
	return p
}

func (p *peer) addr() netip.AddrPort {
	if p.s != nil {
		return p.s.LocalAddr()
	}
	return p.conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

func (p *peer) write(b []byte, to netip.AddrPort) {
	p.w.t.Helper()
	if p.s == nil {
		_, err := p.conn.WriteToUDPAddrPort(b, to)
		p.w.NoError(err)
		return
	}
	_, err := p.s.SendTo(b, to)
	p.w.NoError(err)
	p.w.NoError(p.s.Ring().Flush())
}

// read is the next datagram.
func (p *peer) read() []byte {
	p.w.t.Helper()
	b := make([]byte, 65536)
	if p.s == nil {
		n, err := p.conn.Read(b)
		p.w.NoError(err)
		return b[:n]
	}
	n := -1
	p.w.until("a datagram at the other end", func() bool {
		for i := range p.w.farKept {
			if c := &p.w.farKept[i]; c.Socket == p.s && c.Events.Has(ring.EventPacket) {
				n = c.Packet.CopyTo(b)
				p.w.NoError(c.Packet.Release())
				p.w.farKept = append(p.w.farKept[:i:i], p.w.farKept[i+1:]...)
				return true
			}
		}
		return false
	})
	return b[:n]
}

// nothing reports that no datagram is there, after our rings have been polled.
func (p *peer) nothing() {
	p.w.t.Helper()
	for range 8 {
		p.w.poll()
	}
	if p.s != nil {
		p.w.Empty(p.w.farKept)
		return
	}
	p.w.NoError(p.conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond)))
	n, err := p.conn.Read(make([]byte, 1))
	p.w.ErrorIs(err, os.ErrDeadlineExceeded, "%d bytes", n)
	p.w.NoError(p.conn.SetReadDeadline(time.Now().Add(3 * patience)))
}
