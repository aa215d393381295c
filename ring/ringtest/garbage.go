package ringtest

import (
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
)

// noAllocation is the case "no allocation on the path".
func noAllocation(t *testing.T, b Backend) {
	if raceEnabled {
		t.Skip("the race detector allocates by itself; the build without it asserts this")
	}
	w := newWorld(t, b)
	u := w.udp(w.local, ring.Config{PacketInfo: true, Timestamps: true})
	s, peer := w.pair()
	r := u.Ring()
	if r != s.Ring() {
		t.Fatal("two rings")
	}
	up := w.udpPeer(u.LocalAddr())
	to := up.LocalAddr().(*net.UDPAddr).AddrPort()
	raw := func(c interface{ File() (*os.File, error) }) int {
		f, err := c.File()
		w.NoError(err)
		t.Cleanup(func() { _ = f.Close() })
		fd := int(f.Fd())
		w.NoError(unix.SetNonblock(fd, true))
		return fd
	}
	// The peers send through plain system calls, so that nothing of the net package's is counted.
	ufd, sfd := raw(up.(*net.UDPConn)), raw(peer.(kernelStream))
	dst := make([]ring.Completion, 8)
	msg, got := []byte("0123456789abcdef"), make([]byte, 64)
	turn := func(s *ring.Socket, fd int, to netip.AddrPort) {
		if _, e := sys.Send(fd, msg, 0); e != 0 {
			t.Fatal(e)
		}
		for {
			n, err := r.Poll(dst)
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				continue
			}
			c := &dst[0]
			if c.Events != ring.EventPacket || c.Socket != s {
				t.Fatal(c.Events)
			}
			if to.IsValid() {
				_, err = s.SendTo(c.Packet.Bytes(), to)
			} else {
				_, err = s.Send(c.Packet.Bytes())
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Packet.Release(); err != nil {
				t.Fatal(err)
			}
			break
		}
		if n, e := sys.Recv(fd, got, 0); e != 0 || n != len(msg) {
			t.Fatal(n, e)
		}
	}
	packet := func() {
		p, err := w.pool.Alloc(16)
		if err != nil {
			t.Fatal(err)
		}
		if err := u.SendPacket(p, to, 1); err != nil {
			t.Fatal(err)
		}
		for {
			n, err := r.Poll(dst)
			if err != nil {
				t.Fatal(err)
			}
			if n == 1 {
				break
			}
		}
		if n, e := sys.Recv(ufd, got, 0); e != 0 || n != 16 {
			t.Fatal(n, e)
		}
	}
	bufs := [][]byte{msg[:4], msg[4:]}
	work := map[string]func(){
		"idle poll":   func() { _, _ = r.Poll(dst) },
		"UDP echo":    func() { turn(u, ufd, to) },
		"TCP echo":    func() { turn(s, sfd, netip.AddrPort{}) },
		"send packet": packet,
		"vectored send": func() {
			if _, err := u.SendVector(bufs, to); err != nil {
				t.Fatal(err)
			}
			if n, e := sys.Recv(ufd, got, 0); e != 0 || n != 16 {
				t.Fatal(n, e)
			}
		},
		"deadline": func() {
			if err := s.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
			if err := s.SetReadDeadline(time.Time{}); err != nil {
				t.Fatal(err)
			}
		},
		"arm":  func() { _, _ = r.Arm(); _, _ = r.Poll(dst) },
		"wait": func() { _ = r.Wait(0); _, _ = r.Poll(dst) },
	}
	for name, f := range work {
		for range 100 {
			f() // tables reach their size
		}
		w.Zero(testing.AllocsPerRun(500, f), name)
	}
}
