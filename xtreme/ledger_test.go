package xtreme_test

import (
	"encoding/binary"
	"io"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/hoststat"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// dropReasonsOf are the reasons for which an offloaded ring has dropped frames, and how many frames that were in all.
func dropReasonsOf(r *xtreme.Ring) (by map[string]uint64, sum uint64) {
	by = map[string]uint64{}
	reasons := map[string]bool{}
	for d := wire.Drop(1); d < wire.NumDrops; d++ {
		reasons[d.String()] = true
	}
	for _, c := range r.Stats().Driver {
		if reasons[c.Name] && c.Value > 0 {
			by[c.Name] = c.Value
			sum += c.Value
		}
	}
	return by, sum
}

// kernelCount is a counter of the kernel in the thread's network namespace.
func (w *cabled) kernelCount(name string) uint64 {
	r, err := hoststat.Open()
	w.NoError(err)
	defer func() { w.NoError(r.Close()) }()
	for _, c := range r.Read() {
		if c.Name == name {
			return c.Value
		}
	}
	w.FailNow("no counter", name)
	return 0
}

// checkLink: each frame that the steering program gave to the ring is received by it, or is among the link's losses. The peer may send one more
// just now, which waits for the next poll.
func (w *cabled) checkLink(r *xtreme.Ring) {
	w.until("steer.hit is rx_frames and rx_lost", func() bool {
		return counter(r, "v0.steer.hit") == counter(r, "v0.rx_frames")+counter(r, "v0.rx_lost")
	})
}

// checkBuffers: all buffers are free, or lie ready for the ring.
func (w *cabled) checkBuffers(s *xtreme.Socket) {
	w.close(s)
	w.until("buffers return", func() bool {
		l := w.poller.Ledger()
		return l.Free+l.Filling == l.Total
	})
	w.NoError(w.poller.Pool().Verify())
}

// Each datagram that is sent to a socket is delivered, or counted as lost by one reason, exactly and on every kind of ring, under a load with
// faults: bursts that rings and receive buffers do not take, packets that the application holds until its budget is spent, wrong checksums. In
// the end all buffers are where they were.
func TestTheLedgerAddsUp(t *testing.T) {
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		w := &cabled{net: testnet.New(t, testnet.Pair{}), world: &world{Assertions: require.New(t), t: t, room: 64}}
		w.engine = w.newEngine(func(s *conf.Settings) { s.Ring = kind })
		w.poller = w.newPoller("test")
		s := w.udp(w.at(0), xtreme.UDPConfig{LargestDatagram: 2048, SocketConfig: xtreme.SocketConfig{Budget: 1 << 17},
			IPConfig: xtreme.IPConfig{ReceiveBuffer: 1 << 15}})
		peer := w.net.Dial(s.LocalAddr())
		sent, delivered := 0, 0
		var held []xtreme.Packet
		send := func(n int) {
			for range n {
				w.write(peer, "of the load")
			}
			sent += n
		}
		take := func(hold bool) {
			w.poll()
			for _, c := range w.kept {
				if !c.Packet.Valid() {
					continue
				}
				delivered++
				if hold {
					held = append(held, c.Packet)
				} else {
					w.NoError(c.Packet.Release())
				}
			}
			w.kept = nil
		}
		const damaged = 5
		for range 3 {
			for range 20 { // a quiet load
				send(10)
				take(false)
			}
			send(4000) // a burst
			for range 20 {
				take(false)
			}
			for range 100 { // held
				send(10)
				take(true)
			}
			w.net.InPeer(func() {
				for range damaged {
					w.sendWrongSum(s.LocalAddr())
				}
			})
			sent += damaged
			for _, p := range held {
				w.NoError(p.Release())
			}
			held = nil
		}
		lost := func() int {
			if kind != conf.RingOffload {
				return int(w.kernelCount("udp.RcvbufErrors") + w.kernelCount("udp.InCsumErrors"))
			}
			_, sum := dropReasonsOf(s.Ring())
			return int(sum + counter(s.Ring(), "v0.rx_lost"))
		}
		w.until("all is accounted for", func() bool { take(false); return delivered+lost() >= sent })
		w.Equal(sent, delivered+lost())
		w.NotZero(lost())
		if kind != conf.RingOffload {
			w.EqualValues(3*damaged, w.kernelCount("udp.InCsumErrors"))
			full := w.kernelCount("udp.RcvbufErrors")
			w.Contains([]uint64{full, full + 3*damaged}, s.Stats().Drops, "a kernel may count wrong checksums among a socket's drops")
		} else {
			by, sum := dropReasonsOf(s.Ring())
			w.Equal(map[string]uint64{"udp.budget": s.Stats().Drops, "udp.sum": 3 * damaged}, by)
			w.EqualValues(delivered, counter(s.Ring(), "v0.rx_frames")-sum, "nothing came through the kernel")
			w.checkLink(s.Ring())
		}
		w.checkBuffers(s)
	})
}

// Each segment that the link receives reaches the tables of our own TCP or is counted as dropped by one reason, exactly, under a load with
// faults: a reader that holds packets and stops, bursts, wrong checksums, segments of no connection. The stream arrives whole, and all buffers
// return.
func TestTheLedgerOfOwnTCPAddsUp(t *testing.T) {
	w := newTCPCabled(t, unchanged)
	l := w.listenTCP(w.world, w.at(0))
	peer := w.dialFromPeer(w.world, l.LocalAddr())
	s := w.accept(l)
	r := s.Ring()
	const size = 4 << 20
	written := make(chan error, 1)
	go func() {
		_, err := io.Copy(peer, io.LimitReader(zeros{}, size))
		written <- err
	}()
	got, held := 0, []xtreme.Packet(nil)
	const damaged, unknown = 7, 4
	w.net.InPeer(func() {
		for range damaged {
			w.sendSegment(addr(peer.LocalAddr()).Port(), l.LocalAddr(), false)
		}
		for range unknown {
			w.sendSegment(9, l.LocalAddr(), true)
		}
	})
	for turn := 0; got < size; turn++ {
		w.Less(turn, 50_000_000)
		w.poll()
		for _, c := range w.kept {
			if c.Packet.Valid() {
				got += c.Packet.Len()
				held = append(held, c.Packet)
			}
		}
		w.kept = nil
		if len(held) > 100 || turn%1000 == 0 { // until then the window closes
			for _, p := range held {
				w.NoError(p.Release())
			}
			held = nil
		}
	}
	for _, p := range held {
		w.NoError(p.Release())
	}
	w.NoError(<-written)
	w.until("all is counted", func() bool {
		by, _ := dropReasonsOf(r)
		return by["tcp.sum"] == damaged && by["tcp.no_connection"] == unknown
	})
	by, _ := dropReasonsOf(r)
	before := uint64(0) // the table of connections
	for reason, n := range by {
		if strings.HasPrefix(reason, "tcp.") && reason != "tcp.sum" {
			continue // those that the tables have counted as received
		}
		before += n
	}
	w.Equal(counter(r, "v0.rx_frames"), counter(r, "tcp.segments_in")+before+counter(r, "stack.no_buffer"), "%v", by)
	w.checkLink(r)
	w.Equal(size, got)
	w.NoError(peer.SetLinger(0))
	w.close(s)
	w.checkBuffers(l)
}

// zeros reads as zeros without end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// sendSegment sends an acknowledgement from a port of the peer, in the namespace of the calling thread; its checksum is right or wrong.
func (w *cabled) sendSegment(port uint16, to netip.AddrPort, right bool) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	w.NoError(err)
	defer func() { w.NoError(unix.Close(fd)) }()
	source, target := w.net.Peer(0).As4(), to.Addr().As4()
	f := wire.TCPFields{SourcePort: port, TargetPort: to.Port(), Seq: 1, Ack: 1, Flags: wire.TCPAck, Window: 1000}
	segment, err := f.Append(nil, source, target, nil)
	w.NoError(err)
	if !right {
		binary.BigEndian.PutUint16(segment[16:], ^binary.BigEndian.Uint16(segment[16:]))
	}
	h := wire.IPv4Fields{TTL: 64, Protocol: wire.ProtocolTCP, Source: source, Target: target}
	packet, err := h.Append(nil, len(segment))
	w.NoError(err)
	w.NoError(unix.Sendto(fd, append(packet, segment...), 0, &unix.SockaddrInet4{Addr: target}))
}
