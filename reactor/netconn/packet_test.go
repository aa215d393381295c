package netconn

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

func packets(t testing.TB, n *Network) *PacketConn {
	t.Helper()
	p, err := n.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	require.NoError(t, p.SetDeadline(time.Now().Add(patience)))
	return p
}

func TestPacketConn(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{})
		a, b := packets(t, n), packets(t, n)
		require.Equal(t, string(kind), a.Path().Kind)
		require.Nil(t, a.RemoteAddr())
		buf := make([]byte, 1<<16)
		for _, size := range []int{0, 1, 100, 2048, 2049, 9000, 60_000, 65_507} {
			text := bytes.Repeat([]byte{byte(size)}, size)
			k, err := a.WriteTo(text, b.LocalAddr())
			require.NoError(t, err)
			require.Equal(t, size, k)
			k, from, err := b.ReadFrom(buf)
			require.NoError(t, err)
			require.Equal(t, a.LocalAddr().String(), from.String())
			require.Equal(t, text, buf[:k])
		}
		_, err := a.WriteTo(make([]byte, 65_508), b.LocalAddr())
		require.ErrorIs(t, err, unix.EMSGSIZE)
		_, err = a.WriteTo(nil, &net.TCPAddr{})
		require.ErrorIs(t, err, unix.EINVAL)
		_, err = a.WriteToUDPAddrPort(nil, netip.AddrPort{})
		require.ErrorAs(t, err, new(*net.AddrError))
		_, err = a.WriteToUDPAddrPort(nil, netip.MustParseAddrPort("[::1]:9"))
		require.ErrorAs(t, err, new(*net.AddrError))
		_, err = a.Write(nil)
		require.ErrorIs(t, err, unix.EDESTADDRREQ)
	})
}

// TestDatagramIsCutByTheReader: the rest of a datagram that is longer than the reader's slice is lost, and the next read
// has the next datagram.
func TestDatagramIsCutByTheReader(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{})
		a, b := packets(t, n), packets(t, n)
		for _, text := range []string{"a long datagram", "", "next"} {
			_, err := a.WriteTo([]byte(text), b.LocalAddr())
			require.NoError(t, err)
		}
		buf := make([]byte, 6)
		k, _, err := b.ReadFromUDPAddrPort(buf)
		require.NoError(t, err)
		require.Equal(t, "a long", string(buf[:k]))
		k, _, err = b.ReadFromUDPAddrPort(buf)
		require.NoError(t, err)
		require.Zero(t, k)
		k, _, err = b.ReadFromUDPAddrPort(buf)
		require.NoError(t, err)
		require.Equal(t, "next", string(buf[:k]))
	})
}

func TestPacketDeadlines(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{})
		p := packets(t, n)
		require.NoError(t, p.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
		start := time.Now()
		_, _, err := p.ReadFrom(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.GreaterOrEqual(t, time.Since(start), 20*time.Millisecond)
		require.NoError(t, p.SetWriteDeadline(time.Now().Add(-time.Second)))
		_, err = p.WriteTo([]byte("x"), p.LocalAddr())
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)

		require.NoError(t, p.SetDeadline(time.Time{}))
		blocked := make(chan error, 1)
		go func() { blocked <- second(p.Read(make([]byte, 1))) }()
		time.Sleep(5 * time.Millisecond)
		require.NoError(t, p.SetReadDeadline(time.Unix(1, 0)))
		require.ErrorIs(t, wait(t, blocked), os.ErrDeadlineExceeded)
		require.NoError(t, p.SetDeadline(time.Now().Add(patience)))
		_, err = p.WriteTo([]byte("x"), p.LocalAddr())
		require.NoError(t, err)
		_, err = p.Read(make([]byte, 1))
		require.NoError(t, err, "a deadline is no end")
	})
}

func TestConnectedUDP(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{})
		server := packets(t, n)
		c, err := n.Dial("udp", server.LocalAddr().String())
		require.NoError(t, err)
		defer func() { _ = c.Close() }()
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		require.Equal(t, server.LocalAddr().String(), c.RemoteAddr().String())
		_, err = c.Write([]byte("question"))
		require.NoError(t, err)
		buf := make([]byte, 20)
		k, from, err := server.ReadFromUDPAddrPort(buf)
		require.NoError(t, err)
		_, err = packets(t, n).WriteToUDPAddrPort([]byte("from a stranger"), from)
		require.NoError(t, err)
		_, err = server.WriteToUDPAddrPort(buf[:k], from)
		require.NoError(t, err)
		k, err = c.Read(buf)
		require.NoError(t, err)
		require.Equal(t, "question", string(buf[:k]), "from the peer only")
		_, err = c.(*PacketConn).WriteTo(nil, server.LocalAddr())
		require.ErrorIs(t, err, net.ErrWriteToConnected)
	})
}

// TestICMPErrors: that nobody listens where a connected socket sends to is told to one call, and the socket lives on.
func TestICMPErrors(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{})
		nobody := packets(t, n)
		require.NoError(t, nobody.Close())
		c, err := n.Dial("udp", nobody.LocalAddr().String())
		require.NoError(t, err)
		defer func() { _ = c.Close() }()
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		eventually(t, "the address is free", func() bool {
			p, err := net.ListenPacket("udp", nobody.LocalAddr().String())
			if err == nil {
				_ = p.Close()
			}
			return err == nil
		})
		_, err = c.Write([]byte("anybody?"))
		require.NoError(t, err)
		_, err = c.Read(make([]byte, 1))
		require.ErrorIs(t, err, unix.ECONNREFUSED)
		_, err = c.Write([]byte("again"))
		require.NoError(t, err, "told once")
		eventually(t, "the next error is told to a writer, too", func() bool {
			time.Sleep(time.Millisecond)
			_, err := c.Write([]byte("x"))
			return errors.Is(err, unix.ECONNREFUSED)
		})
	})
}

func TestPacketErrorsAfterClose(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{})
		p := packets(t, n)
		require.NoError(t, p.SetReadBuffer(100_000))
		_, err := p.WriteTo([]byte("goes out"), p.LocalAddr())
		require.NoError(t, err)
		require.NoError(t, p.Close())
		for _, err := range []error{p.Close(), p.SetDeadline(time.Now()), p.SetReadBuffer(1), p.SetWriteBuffer(1),
			second(p.Read(nil)), second(p.WriteTo(nil, p.LocalAddr()))} {
			require.ErrorIs(t, err, net.ErrClosed)
			require.ErrorAs(t, err, new(*net.OpError))
		}
	})
}

func TestPacketFloodIsBounded(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{ReceiveBuffer: 16 << 10})
		p := packets(t, n)
		c, err := net.Dial("udp", p.LocalAddr().String())
		require.NoError(t, err)
		defer func() { _ = c.Close() }()
		for range 5000 {
			_, err := c.Write(make([]byte, 1000))
			require.NoError(t, err)
		}
		other := packets(t, n)
		_, err = other.WriteTo([]byte("x"), other.LocalAddr())
		require.NoError(t, err)
		_, err = other.Read(make([]byte, 1))
		require.NoError(t, err)
		p.mu.Lock()
		waiting := p.received.cost
		p.mu.Unlock()
		require.Less(t, waiting, 200<<10)
		// It goes on once somebody reads.
		go func() {
			for range 200 {
				_, _ = c.Write(make([]byte, 7))
				time.Sleep(time.Millisecond)
			}
		}()
		buf := make([]byte, 2000)
		for {
			k, err := p.Read(buf)
			require.NoError(t, err)
			if k == 7 {
				break
			}
		}
	})
}

func TestPacketConcurrency(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{})
		p := packets(t, n)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				buf := make([]byte, 100)
				for {
					if _, _, err := p.ReadFrom(buf); err != nil {
						return
					}
				}
			})
			all.Go(func() {
				for range 300 {
					_, _ = p.WriteTo([]byte("hello"), p.LocalAddr())
					_ = p.SetReadDeadline(time.Now().Add(time.Second))
				}
			})
		}
		time.Sleep(20 * time.Millisecond)
		require.NoError(t, p.Close())
		all.Wait()
	})
}

func TestPacketEchoDoesNotAllocate(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector's sync.Pool drops what it is given, at random")
	}
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{})
		a, b := packets(t, n), packets(t, n)
		require.NoError(t, errors.Join(a.SetDeadline(time.Time{}), b.SetDeadline(time.Time{})))
		to := b.local.AddrPort()
		to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
		buf := make([]byte, 100)
		echo := func() {
			_, _ = a.WriteToUDPAddrPort(buf, to)
			_, from, err := b.ReadFromUDPAddrPort(buf)
			if err != nil {
				panic(err)
			}
			_, _ = b.WriteToUDPAddrPort(buf, from)
			_, _, _ = a.ReadFromUDPAddrPort(buf)
		}
		for range 100 {
			echo()
		}
		require.Zero(t, testnet.LeastAllocs(1000, echo))
	})
}

func TestStreamEchoDoesNotAllocate(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector's sync.Pool drops what it is given, at random")
	}
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{})
		c, a := pair(t, n, "tcp")
		buf := make([]byte, 100)
		echo := func() {
			_, _ = c.Write(buf)
			k, err := a.Read(buf)
			if err != nil {
				panic(err)
			}
			_, _ = a.Write(buf[:k])
			_, _ = c.Read(buf)
		}
		for range 100 {
			echo()
		}
		require.Zero(t, testnet.LeastAllocs(1000, echo))
	})
}
