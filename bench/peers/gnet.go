package peers

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os/signal"
	"syscall"

	"github.com/panjf2000/gnet/v2"

	"github.com/socketxtreme/socketxtreme/bench/harness"
)

var gnetPeer = harness.Peer{
	Name: "gnet", About: "gnet v2.10.0, one event loop", Go: true,
	Protos: []string{"tcp", "udp"}, Roles: []string{"echo", "count", "resp"},
	Subcommands: []harness.Subcommand{{Name: "gnet", Run: serveGnet}},
}

// serveGnet serves with gnet: one event loop, its defaults otherwise (level-triggered, TCP_NODELAY on).
func serveGnet(args []string, out, errs io.Writer) error {
	flags, err := harness.ParseServerFlags("gnet", args, errs, func(_ *flag.FlagSet, p *harness.ServerFlags) { p.AllRoles() })
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return flags.Measured(out, func() error {
		return gnet.Run(&gnetServer{newGnetEvents(flags), ctx, out}, flags.Proto+"://"+flags.Addr,
			gnet.WithNumEventLoop(1), gnet.WithTicker(flags.Role == "resp"), gnet.WithLogger(gnetLog{errs}))
	})
}

// gnetServer is a handler on gnet.
type gnetServer struct {
	gnetEvents
	ctx context.Context
	out io.Writer
}

// OnBoot prints the port and arranges the end. The listener is open already, so clients may come.
func (s *gnetServer) OnBoot(eng gnet.Engine) gnet.Action {
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
func (s *gnetServer) OnShutdown(gnet.Engine) {}
