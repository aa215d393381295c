package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/signal"
	"syscall"
	"time"
)

// netPeer serves with Go's net package, written the way everybody writes it: a goroutine per TCP connection that
// reads and writes, one goroutine with ReadFromUDPAddrPort and WriteToUDPAddrPort for UDP.
func netPeer(args []string, out, errs io.Writer) error {
	flags, err := parsePeerFlags("net", args, errs, deadlineOption)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return flags.profiled(func() error {
		if flags.proto == "udp" {
			return netUDP(ctx, flags, out)
		}
		return netTCP(ctx, flags, out)
	})
}

func netTCP(ctx context.Context, flags peerFlags, out io.Writer) error {
	l, err := net.Listen("tcp", flags.addr)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = l.Close() })
	fmt.Fprintf(out, "ready %d\n", l.Addr().(*net.TCPAddr).Port)
	serve := func(c net.Conn) { netEcho(c, flags.deadline) }
	if flags.role == "count" {
		serve = netCount
	}
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			serve(c)
		}()
	}
}

// netEcho returns whatever arrives until the client goes; how it goes does not matter to the server.
func netEcho(c net.Conn, deadline time.Duration) {
	buf := make([]byte, 4096)
	for {
		if deadline > 0 && c.SetReadDeadline(time.Now().Add(deadline)) != nil {
			return
		}
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		if _, err := c.Write(buf[:n]); err != nil {
			return
		}
	}
}

func netCount(c net.Conn) {
	var t tally
	buf := make([]byte, 64<<10)
	have := 0 // bytes of an incomplete message at the front of buf
	for {
		n, err := c.Read(buf[have:])
		if err != nil {
			return
		}
		have += n
		whole := have - have%messageSize
		for at := 0; at < whole; at += messageSize {
			m := buf[at : at+messageSize]
			if !t.take(m) {
				continue
			}
			if _, err := c.Write(m); err != nil {
				return
			}
		}
		have = copy(buf, buf[whole:have])
	}
}

func netUDP(ctx context.Context, flags peerFlags, out io.Writer) error {
	local, err := netip.ParseAddrPort(flags.addr)
	if err != nil {
		return fmt.Errorf("-addr %q: %w", flags.addr, err)
	}
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(local))
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = c.Close() })
	fmt.Fprintf(out, "ready %d\n", c.LocalAddr().(*net.UDPAddr).Port)
	var t tally
	count := flags.role == "count"
	buf := make([]byte, 64<<10)
	for {
		n, from, err := c.ReadFromUDPAddrPort(buf)
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		if count && (n != messageSize || !t.take(buf[:n])) {
			continue
		}
		if _, err := c.WriteToUDPAddrPort(buf[:n], from); err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
	}
}
