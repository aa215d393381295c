package reactor

import (
	"context"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// A shutdown accepts what waits in the accept queues, also of a listener that offers its connections to others.
func TestShutdownAcceptsForOthers(t *testing.T) {
	for _, kind := range []conf.RingKind{conf.RingUring, conf.RingEpoll} {
		l := turnByHand(t, kind, nothing, Config{Rest: Spin})
		taken := 0
		s, err := l.poller.ListenTCP(netip.MustParseAddrPort("127.0.0.1:0"), xtreme.ListenConfig{AcceptTo: func(fd int, _ netip.AddrPort) bool {
			taken++
			require.NoError(t, unix.Close(fd))
			return true
		}})
		require.NoError(t, err)
		const queued = 500 // several turns' worth
		for range queued {
			c, err := net.DialTimeout("tcp", s.LocalAddr().String(), 5*time.Second)
			require.NoError(t, err)
			defer func() { _ = c.Close() }()
		}
		done := l.acceptsDone(l.now.Add(time.Hour))
		for !done() {
			l.turns(t, 1, time.Microsecond)
		}
		require.Equal(t, queued, taken, kind)
	}
}

// The same beside a connection that is so busy that the ring reads it directly and asks for the others on each n-th turn only.
func TestShutdownAcceptsBesideABusyConnection(t *testing.T) {
	for _, kind := range []conf.RingKind{conf.RingUring, conf.RingEpoll} {
		for round := range 16 { // the turn on which the shutdown begins
			e := mustEngine(t, settingsOf(kind))
			p, err := e.NewPoller("queue", xtreme.PollerConfig{})
			require.NoError(t, err)
			s, err := p.ListenTCP(netip.MustParseAddrPort("127.0.0.1:0"), xtreme.ListenConfig{})
			require.NoError(t, err)
			address := s.LocalAddr().String()
			l, err := New(p, HandlerFunc(echoAll), Config{Logger: quietLog()})
			require.NoError(t, err)
			end := make(chan error, 1)
			go func() { end <- l.Run(context.Background()) }()
			busy, err := net.Dial("tcp", address)
			require.NoError(t, err)
			for range 200 + round {
				_, err = busy.Write(make([]byte, 64))
				require.NoError(t, err)
				_, err = io.ReadFull(busy, make([]byte, 64))
				require.NoError(t, err)
			}
			held, release := make(chan bool), make(chan bool)
			require.NoError(t, l.Post(func() { held <- true; <-release }))
			<-held
			var queued []net.Conn
			for range 5 {
				c, err := net.DialTimeout("tcp", address, 5*time.Second)
				require.NoError(t, err)
				_, err = c.Write([]byte("request"))
				require.NoError(t, err)
				queued = append(queued, c)
			}
			l.BeginShutdown()
			release <- true
			for _, c := range queued {
				require.NoError(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
				answer, err := io.ReadAll(c)
				require.NoError(t, err, "%s, round %d", kind, round)
				require.Equal(t, "request", string(answer))
				require.NoError(t, c.Close())
			}
			require.NoError(t, busy.Close())
			require.NoError(t, <-end)
		}
	}
}

// echoAll answers each packet with its bytes, and closes what the peer has closed.
func echoAll(_ *Loop, c *xtreme.Completion) {
	if c.Events.Has(xtreme.EventPacket) {
		_, _ = c.Socket.Send(c.Packet.Bytes())
		_ = c.Packet.Release()
	}
	if c.Events.Any(xtreme.EventRdHup | xtreme.EventHup) {
		_ = c.Socket.Close()
	}
}

func settingsOf(kind conf.RingKind) conf.Settings {
	s := conf.Default()
	s.Ring, s.SmallBuffers, s.LargeBuffers = kind, 1024, 64
	return s
}
