package netstack

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	gvisor "gvisor.dev/gvisor/pkg/tcpip/transport/tcp"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	wirefmt "github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/tcp"
	"github.com/socketxtreme/socketxtreme/tcp/tcptest"
)

var (
	numSeeds  = flag.Uint64("seeds", 24, "how many seeds")
	firstSeed = flag.Uint64("seed", 1, "the first one")
)

var (
	ourAddr   = wirefmt.Addr{10, 0, 0, 1}
	theirAddr = wirefmt.Addr{10, 0, 0, 2}
)

const port = 80

// trial is what a seed says.
type trial struct {
	seed                     uint64
	settings                 tcp.Settings
	mtu                      int
	lose, duplicate, reorder float64
	weConnect                bool
	ours, theirs             int // bytes
	sack, rack               bool
	control                  string
}

func draw(seed uint64) trial {
	r := rand.New(rand.NewPCG(seed, 5))
	one := func(n int) bool { return r.IntN(n) == 0 }
	t := trial{seed: seed, settings: tcp.DefaultSettings(), mtu: []int{1500, 1500, 576, 9000}[r.IntN(4)], weConnect: one(2), sack: !one(3), rack: one(2),
		control: []string{"reno", "cubic"}[r.IntN(2)]}
	s := &t.settings
	s.SACK, s.Timestamps, s.NoDelay, s.ECN, s.QuickAck = !one(3), !one(3), one(2), one(3), one(4)
	s.WindowScale = []int8{7, 7, 0, -1}[r.IntN(4)]
	s.Congestion = []tcp.Congestion{tcp.CUBIC, tcp.NewReno, tcp.NoCongestionControl}[r.IntN(3)]
	s.ReceiveBuffer = []int{256 << 10, 64 << 10, 8000}[r.IntN(3)]
	t.lose = []float64{0, 0.01, 0.05, 0.1}[r.IntN(4)]
	if one(3) {
		t.duplicate = 0.05
	}
	if one(3) {
		t.reorder = 0.05
	}
	size := func() int {
		if n := []int{0, 1, 20_000, 300_000}[r.IntN(4)]; n > 0 {
			return n + r.IntN(n)
		}
		return 0
	}
	if t.ours, t.theirs = size(), size(); t.lose == 0.1 {
		t.theirs /= 4 // without SACK netstack sends ten kilobytes a second then
	}
	return t
}

// bytesOf are what a side of a seed sends.
func bytesOf(seed uint64, side, n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(side)})
	_, _ = r.Read(b)
	return b
}

// Streams of both directions arrive whole at both stacks, and both connections end.
func TestStreams(t *testing.T) {
	slots := make(chan struct{}, 8) // they mostly wait for timers
	var all sync.WaitGroup
	for seed := *firstSeed; seed < *firstSeed+*numSeeds; seed++ {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			x := draw(seed)
			start := time.Now()
			if err := x.run(); err != nil {
				t.Errorf("seed %d: %v\n%+v", seed, err, x)
				return
			}
			t.Logf("seed %d: %d and %d bytes, MTU %d, loss %v: %v", seed, x.ours, x.theirs, x.mtu, x.lose, time.Since(start).Round(time.Millisecond))
		})
	}
	all.Wait()
}

// patience is how long the slowest may take: 600 kB at a loss of a tenth, with time-outs of 200 ms that back off.
const patience = 2 * time.Minute

func (x trial) run() error {
	link := channel.New(1024, uint32(x.mtu), "")
	theirs, err := x.netstack(link)
	if err != nil {
		return err
	}
	defer theirs.Destroy()
	random := rand.New(rand.NewPCG(x.seed, 6))
	done := make(chan struct{})
	var once sync.Once
	stop := func() { once.Do(func() { close(done) }) }
	defer stop()
	host, err := tcptest.NewHost(ourAddr, tcp.Config{Random: random.Uint64, MTU: x.mtu}, clock.Time(clock.Second))
	if err != nil {
		return err
	}
	e := &engine{host: host, in: make(chan []byte, 4096), start: time.Now(), done: done, end: make(chan error, 1),
		out: bytesOf(x.seed, 0, x.ours), want: bytesOf(x.seed, 1, x.theirs)}
	to, from := x.wire(1), x.wire(2)
	e.send = to.carry
	to.deliver = func(packet []byte) {
		p := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(packet)})
		link.InjectInbound(header.IPv4ProtocolNumber, p)
		p.DecRef()
	}
	from.deliver = func(packet []byte) {
		select {
		case e.in <- packet:
		default: // a queue that is full
		}
	}
	go to.run(done)
	go from.run(done)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		for {
			p := link.ReadContext(ctx)
			if p == nil {
				return
			}
			v := p.ToView()
			from.carry(append([]byte(nil), v.AsSlice()...))
			v.Release()
			p.DecRef()
		}
	}()

	conns := make(chan net.Conn, 1)
	failed := make(chan error, 2)
	remote := tcpip.FullAddress{Addr: tcpip.AddrFrom4(theirAddr), Port: port}
	if x.weConnect {
		l, err := gonet.ListenTCP(theirs, remote, ipv4.ProtocolNumber)
		if err != nil {
			return err
		}
		defer l.Close()
		go func() {
			c, err := l.Accept()
			if err != nil {
				failed <- err
				return
			}
			conns <- c
		}()
		e.open = func(now clock.Time) error {
			_, err := host.Connect(now, tcp.Dial{Local: tcp.Endpoint{Addr: ourAddr}, Remote: tcp.Endpoint{Addr: theirAddr, Port: port}, Path: tcp.Path{MTU: x.mtu}, Settings: x.settings})
			return err
		}
		go e.run()
	} else {
		if e.listener, err = host.Listen(tcp.ListenConfig{Local: tcp.Endpoint{Port: port}, Backlog: 1, Settings: x.settings}); err != nil {
			return err
		}
		e.open = func(clock.Time) error { return nil }
		go e.run()
		go func() {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			c, err := gonet.DialContextTCP(ctx, theirs, tcpip.FullAddress{Addr: tcpip.AddrFrom4(ourAddr), Port: port}, ipv4.ProtocolNumber)
			if err != nil {
				failed <- err
				return
			}
			conns <- c
		}()
	}
	go func() {
		select {
		case c := <-conns:
			failed <- exchange(c, bytesOf(x.seed, 1, x.theirs), bytesOf(x.seed, 0, x.ours))
		case <-done:
			failed <- errors.New("netstack has no connection")
		}
	}()
	// Both must end. When one has failed, or is too late, the other is told to stop, so that it says where it is.
	var errs []error
	timer := time.AfterFunc(patience, stop)
	defer timer.Stop()
	for range 2 {
		select {
		case err = <-e.end:
		case err = <-failed:
		case <-done:
			return errors.Join(append(errs, <-e.end)...)
		}
		if err != nil {
			errs = append(errs, err)
			stop()
		}
	}
	return errors.Join(errs...)
}

func (x trial) wire(number uint64) *wire {
	return &wire{random: rand.New(rand.NewPCG(x.seed, 10+number)), lose: x.lose, duplicate: x.duplicate, reorder: x.reorder, queue: make(chan queued, 4096)}
}

// netstack is their host.
func (x trial) netstack(link *channel.Endpoint) (*stack.Stack, error) {
	s := stack.New(stack.Options{NetworkProtocols: []stack.NetworkProtocolFactory{ipv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{gvisor.NewProtocol}})
	sack, recovery, control := tcpip.TCPSACKEnabled(x.sack), tcpip.TCPRecovery(0), tcpip.CongestionControlOption(x.control)
	if x.rack {
		recovery = tcpip.TCPRACKLossDetection
	}
	for _, o := range []tcpip.SettableTransportProtocolOption{&sack, &recovery, &control} {
		if err := s.SetTransportProtocolOption(gvisor.ProtocolNumber, o); err != nil {
			return nil, fmt.Errorf("option %T: %v", o, err)
		}
	}
	if err := s.CreateNIC(1, link); err != nil {
		return nil, fmt.Errorf("interface: %v", err)
	}
	address := tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: tcpip.AddrFrom4(theirAddr).WithPrefix()}
	if err := s.AddProtocolAddress(1, address, stack.AddressProperties{}); err != nil {
		return nil, fmt.Errorf("address: %v", err)
	}
	s.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: 1}})
	return s, nil
}

// exchange is the application over netstack.
func exchange(c net.Conn, out, want []byte) error {
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	written := make(chan error, 1)
	go func() {
		_, err := c.Write(out)
		if err == nil {
			err = c.(interface{ CloseWrite() error }).CloseWrite()
		}
		written <- err
	}()
	sum := sha256.New()
	n, err := io.Copy(sum, c)
	if err == nil && (int(n) != len(want) || [32]byte(sum.Sum(nil)) != sha256.Sum256(want)) {
		err = fmt.Errorf("netstack has received %d bytes of %d, or others", n, len(want))
	}
	return errors.Join(err, <-written)
}
