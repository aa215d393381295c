package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"github.com/socketxtreme/socketxtreme/stats/metrics"
)

// newMetricsCommand makes "metrics".
func newMetricsCommand() *cobra.Command {
	var t target
	var listen string
	c := &cobra.Command{
		Use:   "metrics",
		Short: "Serves /metrics of a process for Prometheus, until interrupted or the process ends",
		Long: "metrics serves what a process counts at http://ADDRESS/metrics. A program that has a /metrics of its own registers a collector of\n" +
			"package stats/metrics instead. docs/monitoring.md has the names, stats/metrics/dashboard.json is a dashboard for Grafana.",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error { return serveMetrics(c, &t, listen) },
	}
	t.flags(c.Flags())
	_ = c.Flags().MarkHidden("json")
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:9469", "the address to listen on; port 0 takes a free one")
	return c
}

// serveMetrics serves until an interrupt or the end of the process.
func serveMetrics(c *cobra.Command, t *target, listen string) error {
	if t.json {
		return usageError{errors.New("json: Prometheus has a form of its own; xtstat --json -v 3 has the counters as JSON")}
	}
	address, err := netip.ParseAddrPort(listen)
	if err != nil {
		return usageError{fmt.Errorf("listen %q: want an address and a port, 127.0.0.1:9469", listen)}
	}
	r, err := t.open(c.ErrOrStderr())
	if err != nil {
		return err
	}
	defer r.Close()
	registry := prometheus.NewRegistry()
	if err := registry.Register(metrics.New(r)); err != nil {
		return err
	}
	l, err := net.Listen("tcp", address.String())
	if err != nil {
		return err
	}
	fmt.Fprintf(c.ErrOrStderr(), "xtstat: metrics at http://%v/metrics\n", l.Addr())
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return serveUntilEnd(c, l, mux, r.Live)
}

// serveUntilEnd serves HTTP until an interrupt, or until the process that is shown is not live any more.
func serveUntilEnd(c *cobra.Command, l net.Listener, h http.Handler, live func() (bool, error)) error {
	ctx, stop := signalContext()
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if ok, err := live(); !ok && err == nil {
					fmt.Fprintln(c.ErrOrStderr(), "xtstat: the process has ended - exiting")
					cancel()
				}
			}
		}
	}()
	return serve(ctx, l, h)
}

// serve serves HTTP until ctx ends.
func serve(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	timeout, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := server.Shutdown(timeout); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// signalContext ends with an interrupt.
func signalContext() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
}
