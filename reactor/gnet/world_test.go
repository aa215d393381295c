package gnet_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	upstream "github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// world is where a semantic is looked at: gnet itself, which says what is right, and this package on each ring in each mode.
type world struct {
	ring  conf.RingKind // empty: gnet itself
	exact bool          // gnet's behaviour is to be seen
}

func (w world) gnet() bool { return w.ring == "" }

func (w world) String() string {
	switch {
	case w.gnet():
		return "gnet"
	case w.exact:
		return string(w.ring) + "-exact"
	}
	return string(w.ring)
}

var (
	oracle = world{exact: true}
	own    = []world{{conf.RingUring, true}, {conf.RingEpoll, true}, {conf.RingUring, false}, {conf.RingEpoll, false}}
)

// semantics runs each semantic in every world; without gnet under the race detector.
func semantics(t *testing.T, list map[string]func(t *testing.T, w world)) {
	worlds := own
	if !raceDetector { // gnet's CountConnections and Register race with the start of its loops
		worlds = append([]world{oracle}, own...)
	}
	for name, f := range list {
		t.Run(name, func(t *testing.T) {
			for _, w := range worlds {
				t.Run(w.String(), func(t *testing.T) { f(t, w) })
			}
		})
	}
}

// anEngine is what gnet's Engine and ours have in common.
type anEngine interface {
	Validate() error
	CountConnections() int
	Register(context.Context) (<-chan gnet.RegisteredResult, error)
	Dup() (int, error)
	DupListener(network, address string) (int, error)
	Stop(context.Context) error
}

// aClient is what gnet's Client and ours have in common.
type aClient interface {
	Start() error
	Stop() error
	Dial(network, address string) (gnet.Conn, error)
	DialContext(network, address string, ctx any) (gnet.Conn, error)
	Enroll(net.Conn) (gnet.Conn, error)
	EnrollContext(net.Conn, any) (gnet.Conn, error)
}

// actor is a handler of functions for both.
type actor struct {
	boot     func(anEngine) gnet.Action
	shutdown func(anEngine)
	events   handler
}

type ownActor struct {
	*actor
	*handler
}

type gnetActor struct {
	*actor
	*handler
}

func (a ownActor) OnBoot(e gnet.Engine) gnet.Action      { return a.booted(e) }
func (a ownActor) OnShutdown(e gnet.Engine)              { a.ends(e) }
func (a gnetActor) OnBoot(e upstream.Engine) gnet.Action { return a.booted(e) }
func (a gnetActor) OnShutdown(e upstream.Engine)         { a.ends(e) }

func (a *actor) booted(e anEngine) gnet.Action {
	if a.boot != nil {
		return a.boot(e)
	}
	return gnet.None
}

func (a *actor) ends(e anEngine) {
	if a.shutdown != nil {
		a.shutdown(e)
	}
}

// theirs is the options that gnet has too.
func theirs(o gnet.Options) upstream.Option {
	return func(u *upstream.Options) {
		to := reflect.ValueOf(u).Elem()
		for i := range to.NumField() {
			to.Field(i).Set(reflect.ValueOf(o).FieldByName(to.Type().Field(i).Name))
		}
	}
}

func (w world) options(o gnet.Options) gnet.Option {
	o.Ring, o.ExactGnet = w.ring, w.exact
	return gnet.WithOptions(o)
}

// run is Rotate, or gnet's.
func (w world) run(a *actor, o gnet.Options, addresses ...string) error {
	if w.gnet() {
		return upstream.Rotate(gnetActor{a, &a.events}, addresses, theirs(o))
	}
	return gnet.Rotate(ownActor{a, &a.events}, addresses, w.options(o))
}

// stop is the package's Stop.
func (w world) stop(ctx context.Context, address string) error {
	if w.gnet() {
		//lint:ignore SA1019 it is what is tested
		return upstream.Stop(ctx, address)
	}
	return gnet.Stop(ctx, address)
}

func (w world) zeroEngine() anEngine {
	if w.gnet() {
		return upstream.Engine{}
	}
	return gnet.Engine{}
}

// client is a started client, stopped at the test's end.
func (w world) client(t *testing.T, a *actor, o gnet.Options) aClient {
	var c aClient
	var err error
	if w.gnet() {
		c, err = upstream.NewClient(gnetActor{a, &a.events}, theirs(o))
	} else {
		c, err = gnet.NewClient(ownActor{a, &a.events}, w.options(o))
	}
	require.NoError(t, err)
	require.NoError(t, c.Start())
	t.Cleanup(func() { assert.NoError(t, c.Stop()) })
	return c
}

// service is a running server of either kind.
type service struct {
	engine  anEngine
	addrs   []string // of dialling, by address given
	network []string
	result  chan error
	once    sync.Once
}

// serve runs an actor, returns when it has started and ends it with the test.
func (w world) serve(t *testing.T, a *actor, o gnet.Options, addresses ...string) *service {
	t.Helper()
	s := &service{result: make(chan error, 1)}
	booted := make(chan struct{})
	boot := a.boot
	served := *a
	a = &served // the caller may serve it again
	a.boot = func(e anEngine) (action gnet.Action) {
		defer close(booted)
		s.engine = e
		for _, given := range addresses {
			network, address, _ := strings.Cut(given, "://")
			s.network = append(s.network, network)
			s.addrs = append(s.addrs, boundTo(t, e, network, address))
		}
		if boot != nil {
			action = boot(e)
		}
		return action
	}
	go func() { s.result <- w.run(a, o, addresses...) }()
	select {
	case <-booted:
	case err := <-s.result:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("no OnBoot")
	}
	t.Cleanup(func() { s.end(t) })
	return s
}

// boundTo is where a listener can be dialled.
func boundTo(t *testing.T, e anEngine, network, address string) string {
	fd, err := e.DupListener(strings.TrimRight(network, "46"), address) // gnet knows tcp4's as tcp's
	if !assert.NoError(t, err) {
		return ""
	}
	defer func() { _ = unix.Close(fd) }()
	name, err := unix.Getsockname(fd)
	assert.NoError(t, err)
	switch name := name.(type) {
	case *unix.SockaddrInet4:
		return (&net.TCPAddr{IP: net.IP(name.Addr[:]), Port: name.Port}).String()
	case *unix.SockaddrInet6:
		return (&net.TCPAddr{IP: net.IP(name.Addr[:]), Port: name.Port}).String()
	}
	return address
}

// end ends the service without waiting for the ticks of gnet's Stop.
func (s *service) end(t *testing.T) error {
	var err error
	s.once.Do(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.engine.Stop(ctx) // begins the end; what it answers is whether that was all
		err = s.wait(t)
	})
	return err
}

func (s *service) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-s.result:
		s.result <- err
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("Run does not return")
		return nil
	}
}

func (s *service) dial(t *testing.T) net.Conn { t.Helper(); return s.dialTo(t, 0) }

func (s *service) dialTo(t *testing.T, i int) net.Conn {
	t.Helper()
	c, err := net.Dial(s.network[i], s.addrs[i])
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(10*time.Second)))
	return c
}

// send writes a message.
func send(t *testing.T, c io.Writer, message string) {
	t.Helper()
	_, err := c.Write([]byte(message))
	require.NoError(t, err)
}

// expect reads as much as is wanted and compares.
func expect(t *testing.T, c net.Conn, want string) {
	t.Helper()
	b := make([]byte, len(want))
	n, err := io.ReadFull(c, b)
	require.NoError(t, err, "after %q", b[:n])
	require.Equal(t, want, string(b))
}

// silent makes sure that nothing comes.
func silent(t *testing.T, c net.Conn) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(30*time.Millisecond)))
	n, err := c.Read(make([]byte, 1))
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout())
	require.Zero(t, n)
	require.NoError(t, c.SetDeadline(time.Now().Add(10*time.Second)))
}

// inTraffic sends a message to a server of one loop and runs f in the OnTraffic that it causes; it returns when f has.
func (w world) inTraffic(t *testing.T, address, message string, f func(c gnet.Conn) gnet.Action) (*service, net.Conn) {
	t.Helper()
	done := make(chan struct{})
	var once sync.Once
	a := &actor{}
	a.events.traffic = func(c gnet.Conn) (action gnet.Action) {
		once.Do(func() { defer close(done); action = f(c) })
		return action
	}
	s := w.serve(t, a, gnet.Options{}, address)
	c := s.dial(t)
	send(t, c, message)
	within(t, done, "OnTraffic")
	return s, c
}

// unixAddress is a unix address of the test's own.
func unixAddress(t *testing.T) string { return "unix://" + filepath.Join(t.TempDir(), "s") }

// freePort is an address that was free a moment ago, for servers with a listener for each loop, and for those that come again. Its
// port is none that the kernel chooses for others meanwhile.
func freePort(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	require.NoError(t, err)
	var first, last int
	_, err = fmt.Sscan(string(text), &first, &last)
	require.NoError(t, err)
	exact := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { // also TIME_WAIT counts
		return c.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 0) })
	}}
	const lowest = 10000
	require.Greater(t, first, lowest+1000, "ports below those that the kernel chooses")
	for range 1000 {
		address := fmt.Sprintf("127.0.0.1:%d", lowest+rand.IntN(first-lowest))
		stream, err := exact.Listen(t.Context(), "tcp", address)
		if err != nil {
			continue
		}
		datagrams, err := exact.ListenPacket(t.Context(), "udp", address)
		_ = stream.Close()
		if err == nil {
			_ = datagrams.Close()
			return address
		}
	}
	t.Fatalf("no free port between %d and %d", lowest, first)
	return ""
}

// runnable is a gnet.Runnable.
func runnable(f func() error) gnet.Runnable {
	return gnet.RunnableFunc(func(context.Context) error { return f() })
}

// journal is what happened, in order.
type journal struct {
	mu     sync.Mutex
	events []string
}

func (j *journal) note(s string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, s)
}

func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]string(nil), j.events...)
}
