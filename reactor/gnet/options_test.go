package gnet_test

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2/pkg/logging"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// A value that cannot be honoured is an error that names its option; exact gnet accepts what gnet accepts.
func TestValuesThatCannotBeHonoured(t *testing.T) {
	keepAlive := func(idle, interval time.Duration, count int) gnet.Option {
		return func(o *gnet.Options) { o.TCPKeepAlive, o.TCPKeepInterval, o.TCPKeepCount = idle, interval, count }
	}
	for _, c := range []struct {
		name   string
		option gnet.Option
		exact  bool // accepted there
	}{
		{"TCPNoDelay", gnet.WithTCPNoDelay(7), true},
		{"NumEventLoop", gnet.WithNumEventLoop(-3), true},
		{"ReadBufferCap", gnet.WithReadBufferCap(-5), true},
		{"WriteBufferCap", gnet.WithWriteBufferCap(-5), true},
		{"WriteBufferCap", gnet.WithWriteBufferCap(math.MaxInt/2 + 2), false},
		{"MulticastInterfaceIndex", gnet.WithMulticastInterfaceIndex(math.MaxInt32), true},
		{"TCPKeepAlive", gnet.WithTCPKeepAlive(-time.Second), true},
		{"TCPKeepAlive", gnet.WithTCPKeepAlive(500 * time.Millisecond), false},
		{"TCPKeepAlive", gnet.WithTCPKeepAlive(40000 * time.Second), false},
		{"TCPKeepInterval", keepAlive(10*time.Second, time.Millisecond, 0), false},
		{"TCPKeepInterval", keepAlive(0, -time.Second, 0), true},
		{"TCPKeepCount", keepAlive(10*time.Second, 0, -1), false},
		{"TCPKeepCount", keepAlive(10*time.Second, 0, 128), false},
	} {
		modes(t, func(t *testing.T, exact bool, mode gnet.Option) {
			h := &handler{boot: func(gnet.Engine) gnet.Action { return gnet.Shutdown }}
			result := make(chan error, 1)
			go func() { result <- gnet.Run(h, loopback, mode, c.option) }()
			err := within(t, result, c.name)
			if exact && c.exact {
				require.NoError(t, err, c.name)
				return
			}
			if exact {
				require.ErrorContains(t, err, c.name+" ") // the socket refused it
				return
			}
			require.ErrorContains(t, err, "option "+c.name+" ")
			require.ErrorIs(t, err, unix.EINVAL)
		})
	}
}

// A log that cannot be opened is an error, before anything is bound.
func TestLogPathThatCannotBeOpened(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(name, nil, 0o600))
	option := gnet.WithLogPath(filepath.Join(name, "log"))
	err := gnet.Run(&handler{boot: func(gnet.Engine) gnet.Action { return gnet.Shutdown }}, loopback, option)
	require.ErrorContains(t, err, "option LogPath "+name)
	var path *fs.PathError
	require.ErrorAs(t, err, &path)
	_, err = gnet.NewClient(&handler{}, option)
	require.ErrorContains(t, err, "option LogPath "+name)
}

// lines keeps what is logged.
type lines struct {
	logging.Logger
	mu   sync.Mutex
	warn []string
}

func (l *lines) Warnf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.warn = append(l.warn, fmt.Sprintf(format, args...))
}

// What is accepted and has no effect, or another one, is logged.
func TestOptionsWithoutEffectAreLogged(t *testing.T) {
	boot := func(gnet.Engine) gnet.Action { return gnet.Shutdown }
	devices, err := net.Interfaces()
	require.NoError(t, err)
	l := &lines{Logger: logging.GetDefaultLogger()}
	defer logging.SetDefaultLoggerAndFlusher(logging.GetDefaultLogger(), logging.GetDefaultFlusher())
	require.NoError(t, gnet.Run(&handler{boot: boot}, loopback, gnet.WithLogger(l),
		gnet.WithMulticastInterfaceIndex(devices[0].Index)))
	require.Len(t, l.warn, 1)
	require.Contains(t, l.warn[0], "MulticastInterfaceIndex")

	l.warn = nil
	_, err = gnet.NewClient(&handler{}, gnet.WithLogger(l), gnet.WithNumEventLoop(1000))
	require.NoError(t, err)
	require.Len(t, l.warn, 1)
	require.Contains(t, l.warn[0], "NumEventLoop 1000")
}

// An interval that is not given is a fifth of the time before the first probe, and at least the kernel's second.
func TestShortKeepAlive(t *testing.T) {
	s := serve(t, &handler{}, loopback, gnet.WithTCPKeepAlive(2*time.Second))
	fd, err := s.engine.Dup()
	require.NoError(t, err)
	defer func() { _ = closeFD(fd) }()
	interval, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL)
	require.NoError(t, err)
	require.Equal(t, 1, interval)
}

// Each number of WithBuffers has a default of its own.
func TestBuffersOfOneKind(t *testing.T) {
	for _, option := range []gnet.Option{gnet.WithBuffers(512, 0), gnet.WithBuffers(0, 32)} {
		s := serve(t, &handler{traffic: echo}, loopback, option)
		c := s.dial(t)
		_, err := c.Write([]byte("x"))
		require.NoError(t, err)
		_, err = c.Read(make([]byte, 1))
		require.NoError(t, err)
		require.NoError(t, s.engine.Stop(context.Background()))
	}
}

// SourceAddrHash balances connections that have no remote address to tell, too.
func TestSourceAddrHashWithoutAddress(t *testing.T) {
	a, b := net.Pipe()
	defer func() { _ = b.Close() }()
	s := serve(t, &handler{}, loopback, gnet.WithLoadBalancing(gnet.SourceAddrHash), gnet.WithNumEventLoop(2))
	require.Eventually(t, func() bool {
		answer, err := s.engine.Register(gnet.NewNetConnContext(t.Context(), nameless{a}))
		if err != nil {
			return false
		}
		require.ErrorIs(t, within(t, answer, "the answer").Err, gnet.ErrUnsupportedProtocol)
		return true
	}, 5*time.Second, time.Millisecond)
}

// nameless is a connection whose RemoteAddr is nil, as that of one that is closed.
type nameless struct{ net.Conn }

func (nameless) RemoteAddr() net.Addr { return nil }
