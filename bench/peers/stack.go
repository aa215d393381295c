package peers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/bench/harness"
	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	memlink "github.com/socketxtreme/socketxtreme/ring/link/memory"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/transport/stream"
)

var stackLoop = harness.Peer{
	Name: "ours-stack", About: "SocketXtreme, echo over a link in memory with its own stack", Go: true, Protos: []string{"memory"},
	Subcommands: []harness.Subcommand{{Name: "stack", Run: timeStack}},
}

var rawLoop = harness.Peer{
	Name: "raw-link", About: "Go, frames turned around on the same link", Go: true, Protos: []string{"memory"},
	Subcommands: []harness.Subcommand{{Name: "rawlink", Run: timeRawLink}},
}

// timeStack times echoes through our own stack: a link in memory whose far end throws frames in and takes them out by hand. timeRawLink is the
// same with frames turned around where the stack was, so that the difference is what the stack, the ring and the sockets cost.
func timeStack(args []string, out, errs io.Writer) error {
	return timedLoop("stack", args, out, errs, func(batch int) (func() (uint64, error), func() error, error) {
		return openStackLoop(batch, true)
	})
}

func timeRawLink(args []string, out, errs io.Writer) error {
	return timedLoop("rawlink", args, out, errs, func(batch int) (func() (uint64, error), func() error, error) {
		return openStackLoop(batch, false)
	})
}

const memoryPort = 7000

// stackEchoLoop is both ends of the link, of one goroutine.
type stackEchoLoop struct {
	regions [2]*sys.Region
	pools   [2]*buffers.DriverPool
	near    link.Staged // where the stack is, or its substitute
	far     link.Link
	on      *offload.Exchange // nil in the raw loop, as set
	set     *ring.Set
	ring    *ring.Ring

	batch  int
	frame  []byte // a request
	outs   []link.Out
	frames []link.Frame
	dones  []link.Done
	done   []ring.Completion

	change []func(*ring.SetConfig)
}

// openStackLoop makes a loop that echoes batch datagrams a turn, with our stack or, for comparison, on the raw link. It returns the function
// for a turn and the one that closes all. Each of change may alter the configuration of the ring's set.
func openStackLoop(batch int, stack bool, change ...func(*ring.SetConfig)) (func() (uint64, error), func() error, error) {
	l := newStackEchoLoop(batch)
	l.change = change
	if err := l.open(stack); err != nil {
		return nil, nil, errors.Join(err, l.close())
	}
	if stack {
		return l.turn, l.close, nil
	}
	return l.rawTurn, l.close, nil
}

func newStackEchoLoop(batch int) *stackEchoLoop {
	return &stackEchoLoop{batch: batch, frame: requestFrame(), outs: make([]link.Out, batch), frames: make([]link.Frame, batch),
		dones: make([]link.Done, batch), done: make([]ring.Completion, batch)}
}

// open makes the two ends of a memory link, and with stack the ring on one of them, with a socket.
func (l *stackEchoLoop) open(stack bool) error {
	if err := l.openLink(); err != nil || !stack {
		return err
	}
	if err := l.openRing(nil); err != nil {
		return err
	}
	s, err := l.set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{LargestDatagram: 2048})
	if err != nil {
		return err
	}
	return s.Bind(netip.MustParseAddrPort(fmt.Sprintf("%s:%d", harness.ServerAddr, memoryPort)))
}

// openLink makes the two ends of a memory link.
func (l *stackEchoLoop) openLink() (err error) {
	layout := buffers.DefaultLayout()
	for i := range 2 {
		if l.regions[i], err = sys.NewRegion(sys.RegionConfig{Bytes: layout.Bytes()}); err != nil {
			return err
		}
		if l.pools[i], err = buffers.New(l.regions[i].Bytes(), layout); err != nil {
			return err
		}
	}
	slots := 256
	for slots < l.batch {
		slots *= 2
	}
	near, far, err := memlink.Pair(l.pools[0], l.pools[1], memlink.Config{Names: [2]string{"mem0", "mem0"}, Slots: slots,
		Addrs: [2][6]byte{[6]byte(harness.ServerMAC), [6]byte(harness.ClientMAC)}})
	if err != nil {
		return err
	}
	l.near, l.far = near, far
	return nil
}

// openRing makes a ring on the near end, with TCP if options are given.
func (l *stackEchoLoop) openRing(streams *stream.Options) error {
	const index = 7
	facts := offload.Facts(host.Link{Index: index, Name: "mem0", Type: unix.ARPHRD_ETHER, MAC: wire.MAC(harness.ServerMAC), MTU: 1500,
		Flags: unix.IFF_UP | unix.IFF_LOWER_UP | unix.IFF_BROADCAST | unix.IFF_MULTICAST}, netip.MustParsePrefix(harness.ServerAddr+"/24"))
	facts.Neighbours = []host.Neighbour{{Target: host.Target{Interface: index, Addr: netip.MustParseAddr(harness.ClientAddr)},
		MAC: wire.MAC(harness.ClientMAC), State: unix.NUD_PERMANENT}}
	space, err := offload.NewMemoryHost(facts, rand.Uint64)
	if err != nil {
		return err
	}
	l.on, err = offload.NewExchange(offload.ExchangeConfig{MemoryHost: space, Open: nic.OpenLinks(space, map[string]link.Staged{"mem0": l.near})})
	if err != nil {
		return err
	}
	c := ring.SetConfig{Pool: l.pools[0], Kind: "offload", Transport: space, OneRing: offload.OneRing,
		Driver: offload.New(offload.Config{Exchange: l.on, Interfaces: []nic.Interface{{Name: "mem0"}}, TCP: streams})}
	for _, f := range l.change {
		f(&c)
	}
	if l.set, err = ring.NewSet(c); err != nil {
		return err
	}
	l.ring, err = l.set.NewRing()
	return err
}

// putRequests puts a batch of requests on the link, takeAnswers takes the answers off and says how many bytes they were.
func (l *stackEchoLoop) putRequests() error {
	for i := range l.outs {
		p, err := l.pools[1].Alloc(len(l.frame))
		if err != nil {
			return err
		}
		copy(p.Room(), l.frame)
		if p, err = l.pools[1].Transmit(p); err != nil {
			return err
		}
		l.outs[i] = link.Out{Packet: p}
	}
	if n := l.far.Send(l.outs); n != len(l.outs) {
		return fmt.Errorf("the link took %d of %d requests", n, len(l.outs))
	}
	return l.far.Flush()
}

// takeAnswers receives the answers of a turn at the far end, checks their number, and returns the sum of their bytes.
func (l *stackEchoLoop) takeAnswers() (sum uint64, err error) {
	l.far.Complete(l.dones)
	n := l.far.Receive(l.frames)
	for i := range l.frames[:n] {
		sum += uint64(l.frames[i].Packet.Len())
		if err := l.frames[i].Packet.Release(); err != nil {
			return sum, err
		}
	}
	if want := uint64(l.batch * len(l.frame)); sum != want {
		return sum, fmt.Errorf("%d answers of %d bytes in all to %d requests of %d", n, sum, l.batch, len(l.frame))
	}
	return sum, nil
}

// turn is a batch of echoes through the stack.
func (l *stackEchoLoop) turn() (uint64, error) {
	if err := l.putRequests(); err != nil {
		return 0, err
	}
	n, err := l.ring.Poll(l.done)
	if err != nil {
		return 0, err
	}
	for i := range l.done[:n] {
		c := &l.done[i]
		if _, err := c.Socket.SendTo(c.Packet.Bytes(), c.Source); err != nil {
			return 0, err
		}
		if err := c.Packet.Release(); err != nil {
			return 0, err
		}
	}
	if err := l.ring.Flush(); err != nil {
		return 0, err
	}
	return l.takeAnswers()
}

// rawTurn is a batch of frames turned around.
func (l *stackEchoLoop) rawTurn() (uint64, error) {
	if err := l.putRequests(); err != nil {
		return 0, err
	}
	l.near.Complete(l.dones)
	n := l.near.Receive(l.frames)
	for i := range l.frames[:n] {
		p := l.frames[i].Packet
		turnFrame(p.Bytes())
		p, err := l.pools[0].Transmit(p)
		if err != nil {
			return 0, err
		}
		l.outs[i] = link.Out{Packet: p}
	}
	l.near.Send(l.outs[:n])
	if err := l.near.Flush(); err != nil {
		return 0, err
	}
	return l.takeAnswers()
}

// close closes what open has made.
func (l *stackEchoLoop) close() (err error) {
	if l.set != nil {
		err = l.set.Close() // and near with it
	} else if l.near != nil {
		err = l.near.Close()
	}
	if l.on != nil {
		err = errors.Join(err, l.on.Close())
	}
	if l.far != nil {
		err = errors.Join(err, l.far.Close())
	}
	for _, r := range l.regions {
		if r != nil {
			err = errors.Join(err, r.Close())
		}
	}
	return err
}

// Places in a frame of Ethernet, IPv4 without options and UDP.
const (
	atIP, atSource, atTarget, atPorts, atPayload = 14, 26, 30, 34, 42
)

// requestFrame is a message from the far end to the near one, its checksum complete.
func requestFrame() []byte {
	f := make([]byte, atPayload+harness.MessageSize)
	copy(f, harness.ServerMAC)
	copy(f[6:], harness.ClientMAC)
	binary.BigEndian.PutUint16(f[12:], 0x0800)
	ip := f[atIP:]
	ip[0], ip[8], ip[9] = 0x45, 64, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
	from, to := netip.MustParseAddr(harness.ClientAddr).As4(), netip.MustParseAddr(harness.ServerAddr).As4()
	copy(f[atSource:], from[:])
	copy(f[atTarget:], to[:])
	binary.BigEndian.PutUint16(ip[10:], ^onesSum(0, ip[:20]))
	u := f[atPorts:]
	binary.BigEndian.PutUint16(u, 9000)
	binary.BigEndian.PutUint16(u[2:], memoryPort)
	binary.BigEndian.PutUint16(u[4:], uint16(len(u)))
	harness.MakeRequest(f[atPayload:], 1)
	pseudo := uint32(unix.IPPROTO_UDP) + uint32(len(u)) // RFC 768, with the addresses before it
	binary.BigEndian.PutUint16(u[6:], ^onesSum(pseudo, f[atSource:]))
	return f
}

// onesSum is the sum of RFC 1071 over bytes of an even number.
func onesSum(sum uint32, b []byte) uint16 {
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return uint16(sum)
}

// turnFrame makes a frame its own answer; the checksums stay right.
func turnFrame(f []byte) {
	f = f[:atPayload:atPayload]
	var keep [6]byte
	copy(keep[:], f[:6])
	copy(f, f[6:12])
	copy(f[6:], keep[:])
	copy(keep[:4], f[atSource:])
	copy(f[atSource:atTarget], f[atTarget:])
	copy(f[atTarget:atTarget+4], keep[:4])
	copy(keep[:2], f[atPorts:])
	copy(f[atPorts:atPorts+2], f[atPorts+2:])
	copy(f[atPorts+2:atPorts+4], keep[:2])
}
