package xtreme_test

import (
	"net"
	"net/netip"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// An AcceptTo that ends its goroutine inside Resume ends it: the completions of the last Poll, which the program has, are not touched.
func TestAcceptToEndsItsGoroutineInResume(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		e := newEngine(t, kind)
		p, err := e.NewPoller("ends", xtreme.PollerConfig{})
		require.NoError(t, err)
		ended := make(chan any, 1)
		asked, resumes := 0, false
		go func() {
			defer func() {
				p0 := recover()
				_ = p.Close()
				ended <- p0
			}()
			var l *xtreme.Socket
			l, err := p.ListenTCP(loopback, xtreme.ListenConfig{AcceptTo: func(fd int, _ netip.AddrPort) bool {
				if asked++; resumes {
					runtime.Goexit()
				}
				_ = unix.Close(fd)
				_ = l.Suspend()
				return true
			}})
			if err != nil {
				panic(err)
			}
			u, err := p.OpenUDP(loopback, xtreme.UDPConfig{})
			if err != nil {
				panic(err)
			}
			peer, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(u.LocalAddr()))
			if err != nil {
				panic(err)
			}
			defer peer.Close()
			for range 8 {
				c, err := net.Dial("tcp", l.LocalAddr().String())
				if err != nil {
					panic(err)
				}
				defer c.Close()
			}
			dst := make([]xtreme.Completion, 8)
			for packets := 0; packets == 0 || asked == 0; { // the last Poll before Resume has returned some
				_, _ = peer.Write([]byte("x"))
				packets, _ = p.Poll(dst)
				for i := range dst[:packets] {
					_ = dst[i].Packet.Release()
				}
			}
			resumes = true
			_ = l.Resume()
			for range 1000 {
				_, _ = p.Poll(dst)
			}
		}()
		require.Nil(t, <-ended, "a panic where the goroutine ends")
		require.Greater(t, asked, 1)
	})
}
