package gnet_test

import (
	"hash/crc32"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	errorx "github.com/panjf2000/gnet/v2/pkg/errors"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// placed opens connections to a server's i-th address and reports which loop each was given, in order, and its address.
func (w world) placed(t *testing.T, n int, o gnet.Options, i int, addresses ...string) (loops []gnet.EventLoop, from []string) {
	var mu sync.Mutex
	a := &actor{events: handler{open: func(c gnet.Conn) ([]byte, gnet.Action) {
		mu.Lock()
		defer mu.Unlock()
		loops = append(loops, c.EventLoop())
		from = append(from, c.RemoteAddr().String())
		return []byte("!"), gnet.None
	}}}
	s := w.serve(t, a, o, addresses...)
	for range n {
		expect(t, s.dialTo(t, i), "!")
	}
	require.NoError(t, s.end(t))
	return loops, from
}

// distinct is how many loops there are.
func distinct(loops []gnet.EventLoop) int {
	set := map[gnet.EventLoop]int{}
	for _, el := range loops {
		set[el]++
	}
	return len(set)
}

// hashed reports whether connections are placed by CRC-32 of their addresses, modulo n.
func hashed(loops []gnet.EventLoop, from []string, n uint32) bool {
	places := map[uint32]gnet.EventLoop{}
	for i, el := range loops {
		k := crc32.ChecksumIEEE([]byte(from[i])) % n
		if places[k] == nil {
			places[k] = el
		} else if places[k] != el {
			return false
		}
	}
	return len(places) == distinct(loops)
}

// Loops and options: gnet's semantics one by one, asked of gnet itself too.
func TestLoops(t *testing.T) {
	byHash := gnet.Options{NumEventLoop: 2, LB: gnet.SourceAddrHash}
	semantics(t, map[string]func(*testing.T, world){
		"the number of loops": func(t *testing.T, w world) {
			for _, c := range []struct {
				o    gnet.Options
				want int
			}{{gnet.Options{}, 1}, {gnet.Options{Multicore: true}, runtime.NumCPU()},
				{gnet.Options{Multicore: true, NumEventLoop: 3}, 3}} {
				loops, _ := w.placed(t, 2*c.want, c.o, 0, loopback)
				require.Equal(t, c.want, distinct(loops))
				require.Equal(t, loops[:c.want], loops[c.want:], "round robin")
			}
		},
		"too many locked threads": func(t *testing.T, w world) {
			err := w.run(&actor{}, gnet.Options{NumEventLoop: 10001, LockOSThread: true}, loopback)
			require.Equal(t, errorx.ErrTooManyEventLoopThreads, err)
		},
		"LeastConnections": func(t *testing.T, w world) {
			loops, _ := w.placed(t, 6, gnet.Options{NumEventLoop: 2, LB: gnet.LeastConnections}, 0, loopback)
			n := 0
			for _, el := range loops {
				if el == loops[0] {
					n++
				}
			}
			require.Equal(t, 3, n)
		},
		"SourceAddrHash is CRC-32 of the address": func(t *testing.T, w world) {
			loops, from := w.placed(t, 24, byHash, 0, loopback)
			require.True(t, hashed(loops, from, 2))
		},
		"ReusePort and a balancing policy": func(t *testing.T, w world) {
			o := byHash
			o.ReusePort = true
			loops, from := w.placed(t, 40, o, 0, "tcp://"+freePort(t))
			require.Equal(t, 2, distinct(loops))
			require.Equal(t, !w.exact, hashed(loops, from, 2), "the kernel's choice in gnet, the policy's by default")
		},
		"a unix address turns ReusePort off": func(t *testing.T, w world) {
			o := byHash
			o.ReusePort = true
			loops, from := w.placed(t, 24, o, 0, loopback, unixAddress(t))
			require.True(t, hashed(loops, from, 2))
		},
		"a UDP address turns ReusePort on": func(t *testing.T, w world) {
			loops, from := w.placed(t, 40, byHash, 0, "tcp://"+freePort(t), "udp://"+freePort(t))
			require.Equal(t, 2, distinct(loops))
			require.Equal(t, !w.exact, hashed(loops, from, 2))
		},
		"LockOSThread": func(t *testing.T, w world) {
			loops, _ := w.placed(t, 2, gnet.Options{NumEventLoop: 2, LockOSThread: true}, 0, loopback)
			require.Equal(t, 2, distinct(loops))
		},
		"OnTick: at once, after each delay, Close is None": func(t *testing.T, w world) {
			ticks := make(chan time.Time, 4)
			a := &actor{events: handler{traffic: echo}}
			a.events.tick = func() (time.Duration, gnet.Action) {
				ticks <- time.Now()
				if len(ticks) == cap(ticks) {
					return time.Hour, gnet.Close
				}
				return 20 * time.Millisecond, gnet.Close
			}
			begin := time.Now()
			s := w.serve(t, a, gnet.Options{Ticker: true}, loopback)
			c := s.dial(t)
			last := within(t, ticks, "the first tick")
			require.Less(t, last.Sub(begin), 2*time.Second)
			for range 3 {
				next := within(t, ticks, "a tick")
				require.GreaterOrEqual(t, next.Sub(last), 19*time.Millisecond)
				last = next
			}
			send(t, c, "alive")
			expect(t, c, "alive")
		},
		"OnTick without a delay is called again and again": func(t *testing.T, w world) {
			n := 0
			often := make(chan struct{})
			a := &actor{events: handler{tick: func() (time.Duration, gnet.Action) {
				if n++; n == 100 {
					close(often)
				} else if n > 100 {
					return time.Hour, gnet.None
				}
				return 0, gnet.None
			}}}
			w.serve(t, a, gnet.Options{Ticker: true}, loopback)
			within(t, often, "a hundred ticks")
		},
		"Shutdown from OnTick": func(t *testing.T, w world) {
			a := &actor{events: handler{tick: func() (time.Duration, gnet.Action) { return time.Hour, gnet.Shutdown }}}
			require.NoError(t, w.serve(t, a, gnet.Options{Ticker: true}, loopback).wait(t))
		},
		"CountConnections": func(t *testing.T, w world) {
			closed := make(chan struct{}, 2)
			a := &actor{}
			a.events.open = func(gnet.Conn) ([]byte, gnet.Action) { return []byte("!"), gnet.None }
			a.events.close = func(gnet.Conn, error) gnet.Action { closed <- struct{}{}; return gnet.None }
			s := w.serve(t, a, gnet.Options{NumEventLoop: 2}, loopback)
			c := s.dial(t)
			expect(t, c, "!")
			expect(t, s.dial(t), "!")
			require.Equal(t, 2, s.engine.CountConnections())
			require.NoError(t, c.Close())
			within(t, closed, "OnClose")
			require.Equal(t, 1, s.engine.CountConnections())
		},
		"TCPKeepAlive, TCPNoDelay and buffer sizes": func(t *testing.T, w world) {
			type values struct{ on, idle, interval, count, noDelay int }
			got := make(chan values, 1)
			for _, c := range []struct {
				o    gnet.Options
				want values
			}{
				{gnet.Options{TCPKeepAlive: 20 * time.Second}, values{1, 20, 4, 5, 1}},
				{gnet.Options{TCPKeepAlive: 9 * time.Second, TCPKeepInterval: 2 * time.Second, TCPKeepCount: 7,
					TCPNoDelay: gnet.TCPDelay}, values{1, 9, 2, 7, 0}},
			} {
				a := &actor{events: handler{open: func(c gnet.Conn) ([]byte, gnet.Action) {
					got <- values{sockopt(t, c, unix.SOL_SOCKET, unix.SO_KEEPALIVE), sockopt(t, c, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE),
						sockopt(t, c, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL), sockopt(t, c, unix.IPPROTO_TCP, unix.TCP_KEEPCNT),
						min(1, sockopt(t, c, unix.IPPROTO_TCP, unix.TCP_NODELAY))}
					return nil, gnet.None
				}}}
				w.serve(t, a, c.o, loopback).dial(t)
				require.Equal(t, c.want, within(t, got, "OnOpen"))
			}
		},
		"several addresses": func(t *testing.T, w world) {
			s := w.serve(t, &actor{events: handler{traffic: echo}}, gnet.Options{}, loopback, unixAddress(t), "tcp4://127.0.0.1:0",
				"udp://"+freePort(t))
			for i := range s.addrs {
				c := s.dialTo(t, i)
				send(t, c, "hello")
				expect(t, c, "hello")
				_ = c.Close()
			}
		},
		"LocalAddr and RemoteAddr": func(t *testing.T, w world) {
			addrs := make(chan [2]string, 1)
			a := &actor{events: handler{open: func(c gnet.Conn) ([]byte, gnet.Action) {
				addrs <- [2]string{c.LocalAddr().Network() + " " + c.LocalAddr().String(),
					c.RemoteAddr().Network() + " " + c.RemoteAddr().String()}
				return nil, gnet.None
			}}}
			s := w.serve(t, a, gnet.Options{}, "tcp://"+freePort(t))
			c := s.dial(t)
			require.Equal(t, [2]string{"tcp " + s.addrs[0], "tcp " + c.LocalAddr().String()}, within(t, addrs, "OnOpen"))
			address := unixAddress(t)
			w.serve(t, a, gnet.Options{}, address).dial(t)
			got := within(t, addrs, "OnOpen")
			require.Equal(t, "unix "+strings.TrimPrefix(address, "unix://"), got[0])
		},
	})
}
