package peers

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"

	"github.com/socketxtreme/socketxtreme/bench/harness"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// oursOffload is our own stack over AF_XDP, with a client of the same kind.
var oursOffload = harness.Peer{
	Name: "ours-offload", About: "SocketXtreme, one poller of kind offload: its own stack over AF_XDP", Ours: true, Go: true,
	Protos: []string{"udp"}, Roles: []string{"echo", "count"}, Veth: true, VethOnly: true,
	Subcommands: []harness.Subcommand{{Name: "offload", Run: serveOffloaded}, {Name: "offload-client", Run: offloadClient}},
	Command: func(p harness.Programs, w harness.Workload) []string {
		argv := []string{p.Self, "peer", "offload", "-proto", "udp", "-role", w.Role(), "-addr", harness.ServerAddr + ":0",
			"-iface", harness.ServerDevice, "-groups", strconv.Itoa(w.Groups)}
		return append(argv, nativeFlag(w)...)
	},
	Client: func(p harness.Programs, w harness.Workload, pace harness.Pace) []string {
		argv := append([]string{p.Self, "peer", "offload-client", "-iface", harness.ClientDevice, "-addr", harness.ClientAddr,
			"-peer", harness.ServerAddr}, pace.Flags()...)
		if w.Mode == harness.First {
			return append(argv, "-sample", w.Sample)
		}
		return append(append(argv, w.WindowFlag()...), nativeFlag(w)...)
	},
}

// pollBatch is how many completions a Poll may return.
const pollBatch = 64

// serveOffloaded serves UDP with our own stack over AF_XDP: one poller that xtreme made, polled in a spin.
func serveOffloaded(args []string, out, errs io.Writer) error {
	var device string
	var native bool
	var groups int
	flags, err := harness.ParseServerFlags("offload", args, errs, func(f *flag.FlagSet, p *harness.ServerFlags) {
		f.StringVar(&device, "iface", "", "interface to take packets from")
		f.BoolVar(&native, "native", false, "the steering program in the interface's driver; otherwise where the library puts it")
		f.IntVar(&groups, "groups", 0, "-role count: a socket for each of so many groups as well")
	})
	if err != nil {
		return err
	}
	local, err := netip.ParseAddrPort(flags.Addr)
	switch {
	case err != nil:
		return fmt.Errorf("-addr %q: %w", flags.Addr, err)
	case flags.Proto != "udp":
		return fmt.Errorf("-proto %s: this peer serves udp only", flags.Proto)
	case device == "":
		return errors.New("-iface is missing")
	case groups < 0 || groups > harness.MaxGroups:
		return fmt.Errorf("-groups %d: want 0 to %d", groups, harness.MaxGroups)
	}
	o, err := openOffloaded(device, native)
	if err != nil {
		return err
	}
	s := &offloadService{o: o, tallies: make([]harness.Tally, groups+1)}
	err = s.open(local, groups)
	var cannot *xtreme.FeatureError
	if errors.As(err, &cannot) {
		fmt.Fprintf(out, "refused %v\n", err) // this machine cannot offload the sockets: the rows say so
		return o.close()
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		context.AfterFunc(ctx, func() { s.stopping.Store(true) })
		handle := s.echo
		if flags.Role == "count" {
			handle = s.count
		}
		fmt.Fprintf(out, "ready %d\n", s.control.LocalAddr().Port())
		fmt.Fprintf(out, "path %v\n", s.control.Path())
		err = flags.Measured(out, func() error { return s.serve(handle) })
		if s.messages > 0 {
			per := func(n uint64) float64 { return float64(n) / float64(s.messages) }
			fmt.Fprintf(out, "calls %g %g\n", per(s.kicks), per(s.looks))
		}
	}
	return errors.Join(err, o.close())
}

// offloadService is a poller and what is done with its packets.
type offloadService struct {
	o        *offloaded
	control  *xtreme.Socket  // of the server's own address
	tallies  []harness.Tally // by the socket's user data; the first is control's
	stopping atomic.Bool

	// System calls for how many messages, from the first burst to the last reading of the counters.
	bursts, handled          uint64
	kicksBefore, looksBefore uint64
	kicks, looks, messages   uint64
}

// open makes the sockets: one of the address, and one of each group on its port.
func (s *offloadService) open(local netip.AddrPort, groups int) (err error) {
	if s.control, err = s.o.bind(local, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{UserData: xtreme.Ptr[uint64](0)}}); err != nil {
		return err
	}
	base := netip.MustParseAddr(harness.GroupBase).As4()
	for i := 1; i <= groups; i++ {
		group := base
		group[3] += byte(i)
		at := netip.AddrPortFrom(netip.AddrFrom4(group), s.control.LocalAddr().Port())
		if _, err := s.o.bind(at, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{UserData: xtreme.Ptr(uint64(i))}}); err != nil {
			return err
		}
	}
	return nil
}

// serve polls until it is stopped. What handlers sent leaves with the next Poll.
func (s *offloadService) serve(handle func(*xtreme.Completion) error) error {
	done := make([]xtreme.Completion, pollBatch)
	for !s.stopping.Load() {
		n, err := s.o.poller.Poll(done)
		if err != nil {
			return err
		}
		if n == 0 {
			continue
		}
		for i := range done[:n] {
			if c := &done[i]; c.Events.Has(xtreme.EventPacket) {
				if err := errors.Join(handle(c), c.Packet.Release()); err != nil {
					return err
				}
			}
		}
		s.countCalls(n)
	}
	return nil
}

// countCalls counts a burst, and reads the counters now and then: at first often, because a run may be short.
func (s *offloadService) countCalls(n int) {
	const seldom = 1 << 14
	s.handled += uint64(n)
	if s.bursts++; s.bursts&(s.bursts-1) != 0 && s.bursts%seldom != 0 {
		return
	}
	kicks, looks := s.o.systemCalls()
	if s.bursts == 1 {
		s.handled, s.kicksBefore, s.looksBefore = 0, kicks, looks
		return
	}
	s.kicks, s.looks, s.messages = kicks-s.kicksBefore, looks-s.looksBefore, s.handled
}

// echo sends a datagram back to its sender.
func (s *offloadService) echo(c *xtreme.Completion) error {
	_, err := c.Socket.SendTo(c.Packet.Bytes(), c.Source)
	if errors.Is(err, xtreme.ErrWouldBlock) {
		return nil // the client misses it and says so
	}
	return err
}

// count counts messages of any length that begin as the benchmark's do, and answers queries with the sum of all sockets.
func (s *offloadService) count(c *xtreme.Completion) error {
	m := c.Packet.Bytes()
	if len(m) < harness.MessageSize || !s.tallies[c.UserData].Take(m) {
		return nil
	}
	var sum harness.Tally
	for i := range s.tallies {
		sum.Received += s.tallies[i].Received
		sum.Behind += s.tallies[i].Behind
	}
	sum.Answer(m)
	_, err := c.Socket.SendTo(m[:harness.MessageSize], c.Source)
	if errors.Is(err, xtreme.ErrWouldBlock) {
		return nil // it is asked for again
	}
	return err
}
