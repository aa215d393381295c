package netconn

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

const (
	exitStep  = "NETCONN_EXIT" // what the child does: API, how it ends, address
	exitBytes = 6 << 20        // more than the kernel's buffers on both sides
	exitSends = 40             // datagrams
)

// TestMain makes the test binary the child of TestExitAfterClose.
func TestMain(m *testing.M) {
	if step := strings.Fields(os.Getenv(exitStep)); len(step) == 3 {
		if err := writeAndExit(step[0], step[1], step[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// writeAndExit writes, ends the connection, and returns to the end of the process.
func writeAndExit(kind, how, address string) error {
	dial := net.Dial
	if kind != "net" {
		s := conf.Default()
		s.Ring = conf.RingKind(kind)
		e, err := xtreme.New(s)
		if err != nil {
			return err
		}
		n, err := New(e, Config{})
		if err != nil {
			return err
		}
		dial = n.Dial
	}
	if how == "datagrams" {
		c, err := dial("udp", address)
		if err != nil {
			return err
		}
		for range exitSends {
			if _, err := c.Write([]byte("datagram")); err != nil {
				return err
			}
		}
		return c.Close()
	}
	c, err := dial("tcp", address)
	if err != nil {
		return err
	}
	b := make([]byte, 10_000)
	for left := exitBytes; left > 0; {
		n, err := c.Write(b[:min(left, len(b))])
		if err != nil {
			return err
		}
		left -= n
	}
	if how == "half" {
		return c.(interface{ CloseWrite() error }).CloseWrite()
	}
	return c.Close()
}

// startExit starts a child; its end must be a good one.
func startExit(t *testing.T, kind, how string, at net.Addr) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), exitStep+"="+strings.Join([]string{kind, how, at.String()}, " "))
	child.Stderr = os.Stderr
	require.NoError(t, child.Start())
	t.Cleanup(func() {
		kill := time.AfterFunc(patience, func() { _ = child.Process.Kill() })
		defer kill.Stop()
		require.NoError(t, child.Wait())
	})
}

// TestExitAfterClose: what Write accepted reaches a peer though the process ends as soon as Close, or CloseWrite, has returned. As with
// package net, the peer is slow or not.
func TestExitAfterClose(t *testing.T) {
	for _, kind := range []string{"net", string(conf.RingUring), string(conf.RingEpoll)} {
		t.Run(kind, func(t *testing.T) {
			if kind != "net" {
				needKind(t, conf.RingKind(kind))
			}
			for _, how := range []string{"close", "half"} {
				for _, pause := range []time.Duration{0, 300 * time.Millisecond} {
					t.Run(fmt.Sprint(how, " ", pause), func(t *testing.T) {
						ln, err := net.Listen("tcp", "127.0.0.1:0")
						require.NoError(t, err)
						defer ln.Close()
						startExit(t, kind, how, ln.Addr())
						require.NoError(t, ln.(*net.TCPListener).SetDeadline(time.Now().Add(patience)))
						c, err := ln.Accept()
						require.NoError(t, err)
						defer c.Close()
						require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
						time.Sleep(pause) // the kernel's buffers are full by then
						n, err := io.Copy(io.Discard, c)
						require.NoError(t, err)
						require.EqualValues(t, exitBytes, n, "bytes that Write had accepted")
					})
				}
			}
			t.Run("datagrams", func(t *testing.T) {
				p, err := net.ListenPacket("udp", "127.0.0.1:0")
				require.NoError(t, err)
				defer p.Close()
				startExit(t, kind, "datagrams", p.LocalAddr())
				require.NoError(t, p.SetReadDeadline(time.Now().Add(3*time.Second)))
				b := make([]byte, 100)
				for i := range exitSends {
					_, _, err := p.ReadFrom(b)
					require.NoError(t, err, "after %d of %d datagrams", i, exitSends)
				}
			})
		})
	}
}
