package netconn

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// bothFamilies is a resolver to which every name is [::1] and 127.0.0.1.
func bothFamilies(t *testing.T) *net.Resolver {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	go func() {
		for b := make([]byte, 1500); ; {
			n, from, err := server.ReadFrom(b)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(b[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			answer := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 60}}
			switch q.Type {
			case dnsmessage.TypeA:
				answer.Body = &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}
			case dnsmessage.TypeAAAA:
				answer.Body = &dnsmessage.AAAAResource{AAAA: netip.IPv6Loopback().As16()}
			}
			m.Header.Response, m.Additionals = true, nil
			if answer.Body != nil {
				m.Answers = []dnsmessage.Resource{answer}
			}
			if packed, err := m.Pack(); err == nil {
				_, _ = server.WriteTo(packed, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}

// silentPort listens on a port of [::1] and lets it answer nothing: the queue of connections is full, and the kernel drops SYNs.
func silentPort(t *testing.T) int {
	ln, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(ln) })
	loopback := &unix.SockaddrInet6{Addr: netip.IPv6Loopback().As16()}
	require.NoError(t, unix.SetsockoptInt(ln, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1))
	require.NoError(t, unix.Bind(ln, loopback))
	require.NoError(t, unix.Listen(ln, 0))
	at, err := unix.Getsockname(ln)
	require.NoError(t, err)
	port := at.(*unix.SockaddrInet6).Port
	for range 16 {
		c, err := net.DialTimeout("tcp", net.JoinHostPort("::1", strconv.Itoa(port)), 200*time.Millisecond)
		if err != nil {
			return port
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	require.FailNow(t, "the kernel's queue does not fill")
	return 0
}

// TestANameWithTwoFamilies is dialled as net.Dialer dials it: a family that does not answer does not keep the other one waiting,
// though no deadline is set.
func TestANameWithTwoFamilies(t *testing.T) {
	resolver := bothFamilies(t)
	ask := func(t *testing.T, dial func(ctx context.Context, network, address string) (net.Conn, error)) (answers []string) {
		note := func(what, network string, port int, limit time.Duration) {
			ctx := context.Background()
			if limit > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, limit)
				defer cancel()
			}
			result := make(chan string, 1)
			go func() {
				c, err := dial(ctx, network, net.JoinHostPort("two.test.", strconv.Itoa(port)))
				if err != nil {
					result <- text(err)
					return
				}
				result <- c.RemoteAddr().(*net.TCPAddr).IP.String()
				_ = c.Close()
			}()
			answer := "no answer"
			select {
			case answer = <-result:
			case <-time.After(10 * time.Second):
			}
			answers = append(answers, what+": "+answer)
		}
		listen := func(network, host string, port int) int {
			ln, err := net.Listen(network, net.JoinHostPort(host, strconv.Itoa(port)))
			require.NoError(t, err)
			t.Cleanup(func() { _ = ln.Close() })
			return ln.Addr().(*net.TCPAddr).Port
		}
		silent := silentPort(t)
		note("tcp6, silent, in time", "tcp6", silent, 50*time.Millisecond)
		note("silent, and nobody on the other, in time", "tcp", silent, time.Second)
		listen("tcp4", "127.0.0.1", silent)
		note("silent", "tcp", silent, 0)
		note("silent, in time", "tcp", silent, 8*time.Second)
		note("tcp4", "tcp4", silent, 0)

		four := listen("tcp4", "127.0.0.1", 0)
		note("refused", "tcp", four, 0)
		note("tcp6, refused", "tcp6", four, 0)
		listen("tcp6", "::1", four)
		note("both", "tcp", four, 0)

		ln, err := net.Listen("tcp6", "[::1]:0")
		require.NoError(t, err)
		nobody := ln.Addr().(*net.TCPAddr).Port
		require.NoError(t, ln.Close())
		note("nobody", "tcp", nobody, 0)
		return answers
	}
	if ln, err := net.Listen("tcp6", "[::1]:0"); err != nil {
		testnet.Missing(t, "ipv6", err)
	} else {
		require.NoError(t, ln.Close())
	}
	want := ask(t, (&net.Dialer{Resolver: resolver}).DialContext)
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		require.Equal(t, want, ask(t, newNetwork(t, kind, Config{Resolver: resolver}).DialContext))
	})
}
