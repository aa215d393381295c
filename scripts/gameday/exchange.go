package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/examples/feedhandler/replay"
	"github.com/socketxtreme/socketxtreme/feed/iextp"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// rate is packets a second of the feed.
const rate = 10_000

// longest is how long a game's feed goes on.
const longest = time.Hour

// exchange sends the feed from the peer's namespace, and remembers what it has sent.
type exchange struct {
	cancel context.CancelFunc
	ended  chan error
	raw    int // an AF_PACKET socket on the peer's interface
	index  int
	mac    wire.MAC

	mu     sync.Mutex
	counts bool // sent grows
	sent   []sentPacket
	fault  func(packet []byte) bool // is called for each packet, like Exchange.Intercept; nil: none
}

// sentPacket is a packet of the feed: the sequence numbers of its messages.
type sentPacket struct{ from, to uint64 }

// startExchange starts the feed.
func startExchange(w *world, seed uint64) (*exchange, error) {
	e := &exchange{ended: make(chan error, 1), raw: -1, counts: true}
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	e.cancel = cancel
	x := &replay.Exchange{Interface: peerDevice, Rate: rate, Duration: longest, Symbols: 60, Impair: replay.Impairment{Seed: seed},
		Lines:     [2]netip.AddrPort{netip.MustParseAddrPort(lineAddress), netip.MustParseAddrPort(otherLineAddress)},
		Intercept: e.intercept}
	if err := w.peer(e.openRaw); err != nil {
		cancel()
		return nil, err
	}
	go func() {
		e.ended <- w.peer(func() error {
			_, err := x.Run(ctx)
			return err
		})
	}()
	return e, nil
}

// openRaw opens the socket for frames that a UDP socket cannot send.
func (e *exchange) openRaw() error {
	l, err := net.InterfaceByName(peerDevice)
	if err != nil {
		return err
	}
	e.index, e.mac = l.Index, wire.MAC(l.HardwareAddr)
	e.raw, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	return err
}

// close ends the feed.
func (e *exchange) close() error {
	e.cancel()
	return errors.Join(<-e.ended, unix.Close(e.raw))
}

// intercept is called by the exchange for each packet.
func (e *exchange) intercept(line int, packet []byte) bool {
	if line != 0 {
		return true // the feed has one line: what it loses is lost
	}
	h, _, err := iextp.Parse(packet)
	if err != nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.counts {
		e.sent = append(e.sent, sentPacket{h.Seq(), h.Seq() + uint64(h.Count())})
	}
	return e.fault != nil && e.fault(packet)
}

// spoil has the next n packets of the feed given to do instead of being sent, and returns when that began and ended.
func (e *exchange) spoil(n int, do func(packet []byte) error) (begin, end time.Time, err error) {
	done := make(chan struct{})
	e.mu.Lock()
	e.fault = func(packet []byte) bool {
		if begin.IsZero() {
			begin = time.Now()
		}
		err = errors.Join(err, do(packet))
		if n--; n == 0 {
			e.fault, end = nil, time.Now()
			close(done)
		}
		return true
	}
	e.mu.Unlock()
	select {
	case <-done:
		return begin, end, err
	case <-time.After(10 * time.Second):
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if n > 0 {
		e.fault, err = nil, errors.Join(err, errors.New("the feed does not flow"))
	}
	return begin, end, err
}

// forget has the exchange keep no more of what it sends.
func (e *exchange) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.counts, e.sent = false, nil
}

// packetsIn is how many packets of the feed have a message in the ranges.
func (e *exchange) packetsIn(missed []messages) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.sent {
		for _, m := range missed {
			if p.from < m.To && p.to > m.From {
				n++
				break
			}
		}
	}
	return n
}

// frame is how a packet of the feed is sent that no UDP socket would send so.
type frame struct {
	from    string // its source
	port    uint16 // likewise; 0: 14000
	vlan    uint16 // its tag; 0: none
	damaged bool   // its UDP checksum is wrong
}

// sendFrame sends a packet of the feed in a frame of its own making.
func (e *exchange) sendFrame(packet []byte, f frame) error {
	to := netip.MustParseAddrPort(lineAddress)
	source, target := netip.MustParseAddr(f.from).As4(), to.Addr().As4()
	u := wire.UDPFields{SourcePort: cmp.Or(f.port, 14000), TargetPort: to.Port()}
	datagram, err := u.Append(nil, source, target, packet)
	if err != nil {
		return err
	}
	if f.damaged {
		datagram[len(datagram)-1] ^= 1
	}
	h := wire.IPv4Fields{TTL: 1, Protocol: wire.ProtocolUDP, Source: source, Target: target}
	eth := wire.EthernetFields{Target: wire.GroupMAC(target), Source: e.mac, Tag: wire.Tag(f.vlan), Type: wire.TypeIPv4}
	b, err := h.Append(eth.Append(nil), len(datagram))
	if err != nil {
		return err
	}
	if err := unix.Sendto(e.raw, append(b, datagram...), 0, &unix.SockaddrLinklayer{Ifindex: e.index}); err != nil {
		return fmt.Errorf("a frame on %s: %w", peerDevice, err)
	}
	return nil
}
