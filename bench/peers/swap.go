package peers

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os/signal"
	"syscall"

	"github.com/socketxtreme/socketxtreme/bench/harness"
	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/reactor"
	"github.com/socketxtreme/socketxtreme/reactor/gnet"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

var swapUring = harness.Peer{
	Name: "swap-uring", About: "SocketXtreme, reactor/gnet with the handler of gnet, one loop, io_uring", Go: true,
	Protos: []string{"tcp", "udp"}, Roles: []string{"echo", "count", "resp"}, Rests: true,
	Subcommands: []harness.Subcommand{{Name: "swap", Run: serveSwapped}}, Flags: []string{"-ring", "uring"},
}

var swapEpoll = harness.Peer{
	Name: "swap-epoll", About: "SocketXtreme, reactor/gnet with the handler of gnet, one loop, epoll", Go: true,
	Protos: []string{"tcp", "udp"}, Roles: []string{"echo", "count", "resp"}, Rests: true,
	Subcommands: []harness.Subcommand{{Name: "swap", Run: serveSwapped}}, Flags: []string{"-ring", "epoll"},
}

// serveSwapped is serveGnet with the import swapped: the same handlers on this library.
func serveSwapped(args []string, out, errs io.Writer) error {
	var ring string
	var rest reactor.Rest
	flags, err := harness.ParseServerFlags("swap", args, errs, func(f *flag.FlagSet, p *harness.ServerFlags) {
		p.AllRoles()
		f.StringVar(&ring, "ring", "auto", "kind of ring: auto, uring or epoll")
		f.TextVar(&rest, "rest", reactor.Spin, "spin, adaptive or wait")
	})
	if err != nil {
		return err
	}
	kind, err := conf.ParseRingKind(ring)
	if err != nil {
		return fmt.Errorf("-ring: %w", err)
	}
	if err := ringWorks(kind); err != nil {
		fmt.Fprintf(out, "refused %v\n", err) // this kind of ring does not work here: the rows say so
		return nil
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return flags.Measured(out, func() error {
		return gnet.Run(&swapServer{newGnetEvents(flags), ctx, out}, flags.Proto+"://"+flags.Addr,
			gnet.WithNumEventLoop(1), gnet.WithTicker(flags.Role == "resp"), gnet.WithLogger(gnetLog{errs}),
			gnet.WithRing(kind), gnet.WithRest(rest))
	})
}

// ringWorks opens rings of this kind and closes them again.
func ringWorks(kind conf.RingKind) error {
	settings := conf.FromEnvironment()
	settings.Ring = kind
	engine, err := xtreme.New(settings)
	if err != nil {
		return err
	}
	poller, err := engine.NewPoller("trial", xtreme.PollerConfig{MemoryOnDemand: true})
	if err != nil {
		return err
	}
	return errors.Join(poller.Close(), engine.Close())
}

// swapServer is gnetServer with the other Engine.
type swapServer struct {
	gnetEvents
	ctx context.Context
	out io.Writer
}

// OnBoot prints the port and arranges the end.
func (s *swapServer) OnBoot(eng gnet.Engine) gnet.Action {
	port, err := boundPort(eng)
	if err != nil {
		fmt.Fprintln(s.out, err)
		return gnet.Shutdown
	}
	context.AfterFunc(s.ctx, func() { _ = eng.Stop(context.Background()) })
	fmt.Fprintf(s.out, "ready %d\n", port)
	return gnet.None
}

// OnShutdown has nothing to do.
func (s *swapServer) OnShutdown(gnet.Engine) {}
