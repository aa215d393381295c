package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os/signal"
	"syscall"
	"time"

	"github.com/socketxtreme/socketxtreme/bench/harness"
	"github.com/socketxtreme/socketxtreme/bench/peers"
)

// spoilt is the message that is lost, doubled or changed: one that a quick run comes to on the busiest machine.
const spoilt = 30

// misbehaving are servers that each break one rule, so that the tests can see the harness notice it.
var misbehaving = map[string]func(args []string, out, errs io.Writer) error{
	"dropping":    spoiledUDP(func(n int, m []byte) [][]byte { return keepUnless(n == spoilt, m) }),
	"duplicating": spoiledUDP(func(n int, m []byte) [][]byte { return append([][]byte{m}, keepUnless(n != spoilt, m)...) }),
	"corrupting": spoiledUDP(func(n int, m []byte) [][]byte {
		if n == spoilt {
			m[60] ^= 1
		}
		return [][]byte{m}
	}),
	"refusing": func(_ []string, out, _ io.Writer) error {
		return say(out, "refused it is Sunday", errors.New("closed"))
	},
	"babbling":       func(_ []string, out, _ io.Writer) error { return say(out, "hello", nil) },
	"crashing":       func(_ []string, _, errs io.Writer) error { return say(errs, "no socket today", errors.New("crashed")) },
	"tcp-corrupting": spoiledTCP(func(m []byte) []byte { m[len(m)/2] ^= 1; return m }),
	"tcp-swallowing": spoiledTCP(func(m []byte) []byte { return m[:len(m)-1] }),
	"tcp-adding":     spoiledTCP(func(m []byte) []byte { return append(m, 0) }),
	"tcp-closing":    spoiledTCP(func([]byte) []byte { return nil }),
	"tcp-answering":  spoiledTCP(func([]byte) []byte { return []byte("+NO\r\n") }),
	"unfriendly": func(args []string, out, errs io.Writer) error { // serves well, ends badly
		for _, p := range peers.All {
			if p.Name == "net" {
				return errors.Join(p.Subcommands[0].Run(args, out, errs), errors.New("left in anger"))
			}
		}
		return errors.New("no peer net")
	},
}

func say(w io.Writer, line string, err error) error {
	fmt.Fprintln(w, line)
	return err
}

func keepUnless(gone bool, m []byte) [][]byte {
	if gone {
		return nil
	}
	return [][]byte{m}
}

// spoiledTCP is an echo server that, after some messages, spoils what one read returned; nil closes the connection.
func spoiledTCP(spoil func(m []byte) []byte) func([]string, io.Writer, io.Writer) error {
	return func(args []string, out, errs io.Writer) error {
		flags, err := harness.ParseServerFlags("spoiled", args, errs, func(_ *flag.FlagSet, p *harness.ServerFlags) { p.AllRoles() })
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		l, err := net.Listen("tcp", flags.Addr)
		if err != nil {
			return err
		}
		context.AfterFunc(ctx, func() { _ = l.Close() })
		fmt.Fprintf(out, "ready %d\n", l.Addr().(*net.TCPAddr).Port)
		for {
			c, err := l.Accept()
			if err != nil {
				return nil
			}
			go func() {
				defer c.Close()
				buf := make([]byte, 64<<10)
				for n := 0; ; n++ {
					size, err := c.Read(buf)
					if err != nil {
						return
					}
					m := buf[:size]
					if n == 20 || flags.Role == "resp" {
						m = spoil(m)
					}
					if m == nil {
						return
					}
					if _, err := c.Write(m); err != nil {
						return
					}
				}
			}()
		}
	}
}

// spoiledUDP is an echo server whose nth answer goes through spoil.
func spoiledUDP(spoil func(n int, m []byte) [][]byte) func([]string, io.Writer, io.Writer) error {
	return func(args []string, out, errs io.Writer) error {
		flags, err := harness.ParseServerFlags("spoiled", args, errs, nil)
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		c, err := net.ListenPacket("udp", flags.Addr)
		if err != nil {
			return err
		}
		context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
		fmt.Fprintf(out, "ready %d\n", c.LocalAddr().(*net.UDPAddr).Port)
		buf := make([]byte, 2048)
		for n := 0; ; n++ {
			size, from, err := c.ReadFrom(buf)
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return err
			}
			for _, m := range spoil(n, buf[:size]) {
				if _, err := c.WriteTo(m, from); err != nil {
					return err
				}
			}
		}
	}
}
