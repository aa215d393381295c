package netconn

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
)

// api is what package net and a Network have in common.
type api struct {
	listen func(network, address string) (net.Listener, error)
	packet func(network, address string) (net.PacketConn, error)
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
}

var packageNet = api{net.Listen, net.ListenPacket, new(net.Dialer).DialContext}

func apiOf(n *Network) api {
	return api{func(network, address string) (net.Listener, error) {
		ln, err := n.Listen(network, address)
		if err != nil {
			return nil, err
		}
		return ln, nil
	}, func(network, address string) (net.PacketConn, error) {
		p, err := n.ListenPacket(network, address)
		if err != nil {
			return nil, err
		}
		return p, nil
	}, n.DialContext}
}

// likeNet runs a test's question on package net and on every kind of ring; the answers must be equal.
func likeNet(t *testing.T, ask func(t *testing.T, a api) []string) {
	want := ask(t, packageNet)
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		require.Equal(t, want, ask(t, apiOf(newNetwork(t, kind, Config{}))))
	})
}

// TestWildcardsAreBothFamilies, where no family is asked for.
func TestWildcardsAreBothFamilies(t *testing.T) {
	likeNet(t, func(t *testing.T, a api) (answers []string) {
		for _, to := range [][2]string{{"tcp", "0.0.0.0:0"}, {"tcp", "[::]:0"}, {"tcp", ":0"}, {"tcp", ""}, {"tcp4", "0.0.0.0:0"},
			{"tcp6", "[::]:0"}, {"tcp4", ""}} {
			ln, err := a.listen(to[0], to[1])
			require.NoError(t, err, "%v", to)
			at := ln.Addr().(*net.TCPAddr)
			_, port, err := net.SplitHostPort(at.String())
			require.NoError(t, err)
			answer := to[0] + " " + to[1] + " on " + at.IP.String() + ":"
			for _, host := range []string{"127.0.0.1", "::1"} {
				if c, err := net.Dial("tcp", net.JoinHostPort(host, port)); err == nil {
					answer += " " + host
					_ = c.Close()
				}
			}
			require.NoError(t, ln.Close())
			answers = append(answers, answer)
		}
		for _, to := range [][2]string{{"udp", "0.0.0.0:0"}, {"udp", ""}, {"udp4", "0.0.0.0:0"}, {"udp6", "[::]:0"}} {
			p, err := a.packet(to[0], to[1])
			require.NoError(t, err, "%v", to)
			answers = append(answers, to[0]+" "+to[1]+" on "+p.LocalAddr().(*net.UDPAddr).IP.String())
			require.NoError(t, p.Close())
		}
		return answers
	})
}

// TestBroadcastIsAllowed without an option.
func TestBroadcastIsAllowed(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{})
		for _, address := range []string{"0.0.0.0:0", ":0"} {
			p, err := n.ListenPacket("udp4", address)
			require.NoError(t, err)
			raw, err := p.SyscallConn()
			require.NoError(t, err)
			on := 0
			require.NoError(t, raw.Control(func(fd uintptr) { on, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BROADCAST) }))
			require.NoError(t, err)
			require.Equal(t, 1, on)
			for range 3 { // the second reports what became of the first
				_, err = p.WriteTo([]byte("x"), &net.UDPAddr{IP: net.IPv4(127, 255, 255, 255), Port: 9})
				require.NoError(t, err)
				time.Sleep(5 * time.Millisecond)
			}
			require.NoError(t, p.Close())
		}
		c, err := n.Dial("udp", "127.255.255.255:9")
		require.NoError(t, err)
		require.NoError(t, c.Close())
	})
}

// TestAddressWithoutIP is the loopback's.
func TestAddressWithoutIP(t *testing.T) {
	likeNet(t, func(t *testing.T, a api) (answers []string) {
		for _, local := range [][2]string{{"udp", ":0"}, {"udp4", "127.0.0.1:0"}} {
			p, err := a.packet(local[0], local[1])
			require.NoError(t, err)
			require.NoError(t, p.SetDeadline(time.Now().Add(patience)))
			port := p.LocalAddr().(*net.UDPAddr).Port
			for _, to := range []net.IP{nil, net.IPv4zero} {
				_, err = p.WriteTo([]byte("hello"), &net.UDPAddr{IP: to, Port: port})
				require.NoError(t, err)
				b := make([]byte, 10)
				k, from, err := p.ReadFrom(b)
				require.NoError(t, err)
				answers = append(answers, string(b[:k])+" "+from.(*net.UDPAddr).IP.String())
			}
			require.NoError(t, p.Close())
		}
		return answers
	})
}

// TestReadOfNothing takes nothing and does not wait, whatever there is to tell.
func TestReadOfNothing(t *testing.T) {
	likeNet(t, func(t *testing.T, a api) (answers []string) {
		note := func(n int, err error) {
			require.Zero(t, n)
			answers = append(answers, text(err))
		}
		ln, err := a.listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		c, err := a.dial(context.Background(), "tcp", ln.Addr().String())
		require.NoError(t, err)
		s, err := ln.Accept()
		require.NoError(t, err)
		note(c.Read(nil)) // nothing there
		require.NoError(t, c.SetReadDeadline(time.Unix(1, 0)))
		note(c.Read(nil))
		require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
		require.NoError(t, s.Close())
		_, err = c.Read(make([]byte, 1))
		require.Equal(t, io.EOF, err)
		note(c.Read([]byte{}))
		require.NoError(t, c.Close())
		note(c.Read(nil))
		require.NoError(t, ln.Close())

		p, err := a.packet("udp", "127.0.0.1:0")
		require.NoError(t, err)
		u, err := a.dial(context.Background(), "udp", p.LocalAddr().String())
		require.NoError(t, err)
		require.NoError(t, u.SetReadDeadline(time.Now().Add(patience)))
		note(u.Read(nil))
		note(p.(net.Conn).Read(nil))
		require.NoError(t, u.Close())
		note(u.Read(nil))
		require.NoError(t, p.Close())
		return answers
	})
}

var ports = regexp.MustCompile(`:[0-9]{4,5}\b`)

// text is an error with what differs from run to run left out.
func text(err error) string {
	if err == nil {
		return "nil"
	}
	s := ports.ReplaceAllString(err.Error(), ":port")
	var op *net.OpError
	if !errors.As(err, &op) {
		return s
	}
	if op.Addr == nil {
		s += " (no address)"
	}
	if op.Timeout() {
		s += " (timeout)"
	}
	return op.Op + ": " + s
}

// TestErrorsReadLikePackageNets, in words, operations and addresses.
func TestErrorsReadLikePackageNets(t *testing.T) {
	dir := filepath.Dir(address(t, "unix"))
	likeNet(t, func(t *testing.T, a api) (answers []string) {
		note := func(what string, err error) { answers = append(answers, what+": "+text(err)) }
		listen := func(network, address string) {
			_, err := a.listen(network, address)
			note("listen", err)
		}
		dial := func(ctx context.Context, network, address string) {
			_, err := a.dial(ctx, network, address)
			note("dial", err)
		}
		bg := context.Background()
		ln, err := a.listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		taken := ln.Addr().String()
		listen("tcp", taken)
		listen("tcp", "192.0.2.1:0")
		listen("tcp", "127.0.0.1:99999")
		listen("tcp", "nonsense")
		listen("tcp5", "127.0.0.1:0")
		listen("udp", "127.0.0.1:9999")
		listen("unix", filepath.Join(dir, "none", "s"))
		_, err = a.packet("tcp", "127.0.0.1:9999")
		note("packet", err)
		_, err = a.packet("udp", "192.0.2.1:0")
		note("packet", err)
		require.NoError(t, ln.Close())
		dial(bg, "tcp", taken)
		dial(bg, "tcp", "nonsense")
		dial(bg, "tcp", "")
		dial(bg, "tcp4", "[::1]:8080")
		dial(bg, "unix", filepath.Join(dir, "none", "s"))
		canceled, cancel := context.WithCancel(bg)
		cancel()
		dial(canceled, "tcp", taken)
		late, cancel := context.WithTimeout(bg, -1)
		defer cancel()
		dial(late, "tcp", taken)

		path := filepath.Join(dir, "s")
		_ = os.Remove(path)
		ul, err := a.listen("unix", path)
		require.NoError(t, err)
		u, err := a.dial(bg, "unix", path)
		require.NoError(t, err)
		answers = append(answers, "unnamed "+u.LocalAddr().String()+" "+u.RemoteAddr().Network())
		require.NoError(t, u.Close())
		require.NoError(t, ul.Close())

		ln, err = a.listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		c, err := a.dial(bg, "tcp", ln.Addr().String())
		require.NoError(t, err)
		require.NoError(t, c.SetDeadline(time.Unix(1, 0)))
		_, err = c.Read(make([]byte, 1))
		note("read late", err)
		_, err = c.Write(make([]byte, 1))
		note("write late", err)
		_, err = c.(io.WriterTo).WriteTo(io.Discard)
		note("writeto late", err)
		require.NoError(t, c.Close())
		_, err = c.(io.WriterTo).WriteTo(io.Discard)
		note("writeto closed", err)
		require.NoError(t, ln.Close())

		p, err := a.packet("udp", "127.0.0.1:0")
		require.NoError(t, err)
		to := p.LocalAddr()
		write := func(what string, b []byte, to net.Addr) {
			_, err := p.WriteTo(b, to)
			note(what, err)
		}
		write("too long", make([]byte, 70_000), to)
		write("wrong family", nil, &net.UDPAddr{IP: net.IPv6loopback, Port: 9999})
		write("port 0", nil, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		require.NoError(t, p.SetDeadline(time.Unix(1, 0)))
		write("late", []byte("x"), to)
		_, _, err = p.ReadFrom(make([]byte, 1))
		note("read late", err)
		require.NoError(t, p.Close())
		write("closed", []byte("x"), to)
		write("too long and closed", make([]byte, 70_000), to)
		_, _, err = p.ReadFrom(make([]byte, 1))
		note("read closed", err)

		d, err := a.dial(bg, "udp", to.String())
		require.NoError(t, err)
		for _, read := range []func() error{
			func() error { return second(d.Read(make([]byte, 1))) },
			func() error { _, _, err := d.(net.PacketConn).ReadFrom(make([]byte, 1)); return err },
		} {
			require.NoError(t, d.SetDeadline(time.Now().Add(patience)))
			_, err = d.Write([]byte("x"))
			require.NoError(t, err)
			note("refused", read())
		}
		require.NoError(t, d.Close())
		return answers
	})
}
