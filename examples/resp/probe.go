package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/socketxtreme/socketxtreme/examples/resp/resp"
)

// probe serves on a free port and runs this program again as the client; the server stops when the client is done.
func probe(ctx context.Context, c config) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	c.listen = netip.AddrPortFrom(c.listen.Addr(), 0)
	result := make(chan error, 1)
	err := run(ctx, c, func(addr netip.AddrPort) {
		fmt.Printf("serving on %v, rest %v\n", addr, c.rest)
		go func() {
			result <- measure(ctx, c, addr)
			stop()
		}()
	})
	select {
	case e := <-result:
		return errors.Join(err, e)
	default: // the server failed before there was anything to measure
		return err
	}
}

// measure runs the client process and passes its lines on.
func measure(ctx context.Context, c config, to netip.AddrPort) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.probe+30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, "-client", "-listen", to.String(), "-probe", c.probe.String())
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("client: %w", err)
	}
	return nil
}

const (
	valueSize = 64
	deep      = 16              // commands sent at once in the second half
	patience  = 5 * time.Second // a server that does not answer for so long is gone
)

// client measures on one connection of Go's net: one command at a time for half of the time, then sixteen at a time.
func client(ctx context.Context, c config) error {
	conn, err := net.Dial("tcp", c.listen.String())
	if err != nil {
		return err
	}
	defer conn.Close()
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	fmt.Printf("client: another process, Go's net, SET and GET of %d B in turn, %v per line, %d processors\n", valueSize, c.probe/2,
		runtime.NumCPU())
	for _, depth := range []int{1, deep} {
		if err := askFor(conn, depth, c.probe/2); err != nil {
			return fmt.Errorf("%d at a time: %w", depth, err)
		}
	}
	return nil
}

// askFor sends depth commands at once, waits for their answers and compares them, until the time is over.
func askFor(conn net.Conn, depth int, d time.Duration) error {
	hist := hdrhistogram.New(100, int64(patience), 3)
	in := bufio.NewReader(conn)
	answers := 0
	begin := time.Now()
	for round := 0; answers == 0 || time.Since(begin) < d; round++ {
		commands, want := batch(depth, round)
		sent := time.Now()
		if err := conn.SetDeadline(sent.Add(patience)); err != nil {
			return err
		}
		if _, err := conn.Write(commands); err != nil {
			return err
		}
		got := make([]byte, len(want))
		if _, err := io.ReadFull(in, got); err != nil {
			return fmt.Errorf("no answer: %w", err)
		}
		if string(got) != want {
			return fmt.Errorf("answer %q, want %q", got, want)
		}
		_ = hist.RecordValue(int64(time.Since(sent))) // beyond the limit it was an error above
		answers += depth
	}
	us := func(q float64) float64 { return float64(hist.ValueAtQuantile(q)) / 1e3 }
	fmt.Printf("%2d at a time: %d answers, %.0f/s; p50 %.1f µs, p90 %.1f, p99 %.1f, max %.1f\n", depth, answers,
		float64(answers)/time.Since(begin).Seconds(), us(50), us(90), us(99), float64(hist.Max())/1e3)
	return nil
}

// batch is depth commands, SET and GET of the same key in turn over all rounds, and the answers to them.
func batch(depth, round int) (commands []byte, want string) {
	var w, answer resp.Writer
	for i := range depth {
		n := round*depth + i
		value := fmt.Sprintf("%0*d", valueSize, n/2)
		if n%2 == 0 {
			w.Array(3)
			w.BulkString("SET")
		} else {
			w.Array(2)
			w.BulkString("GET")
		}
		w.BulkString("probe")
		if n%2 == 0 {
			w.BulkString(value)
			answer.Simple("OK")
		} else {
			answer.BulkString(value)
		}
	}
	return w.B, string(answer.B)
}
