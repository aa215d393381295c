// Receive-callback filters a feed before it is queued: of two lines that carry the same numbered messages the second copy is dropped, every
// tenth message is held and released by another goroutine, the rest comes from Poll.
//
//	go run ./examples/receive-callback                    # 10000 messages over loopback
//	go run ./examples/receive-callback -ring epoll -n 1000
//
// It plays the sender too, and fails unless all adds up:
//
//	kernel uring
//	20000 datagrams: 10000 dropped, 1000 held, 9000 delivered
//	1000 released by another goroutine
//	buffers: free …
package main

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/socketxtreme/socketxtreme/conf"
	extraapi "github.com/socketxtreme/socketxtreme/extra_api"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

func main() {
	c, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case err != nil:
		fmt.Fprintln(os.Stderr, "receive-callback:", err)
		os.Exit(2)
	}
	if err := run(c, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "receive-callback:", err)
		os.Exit(1)
	}
}

type config struct {
	kind conf.RingKind
	n    int
}

// parse reads the command line.
func parse(args []string) (c config, err error) {
	f := flag.NewFlagSet("receive-callback", flag.ContinueOnError)
	kind := f.String("ring", string(conf.FromEnvironment().Ring), "kind of ring: auto, uring, epoll or offload")
	f.IntVar(&c.n, "n", 10_000, "messages on each of the two lines")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	if f.NArg() > 0 {
		return c, fmt.Errorf("argument %q: only flags are known", f.Arg(0))
	}
	if c.n < 1 {
		return c, fmt.Errorf("-n %d: want 1 or more", c.n)
	}
	if c.kind, err = conf.ParseRingKind(*kind); err != nil {
		return c, fmt.Errorf("-ring: %w", err)
	}
	return c, nil
}

// run opens an engine and a poller and runs the example on them.
func run(c config, out io.Writer) error {
	settings := conf.FromEnvironment()
	settings.Ring = c.kind
	engine, err := xtreme.New(settings)
	if err != nil {
		return err
	}
	poller, err := engine.NewPoller("receive-callback", xtreme.PollerConfig{})
	if err != nil {
		return errors.Join(err, engine.Close())
	}
	err = filter(poller, c.n, out)
	if err == nil {
		poller.Pool().Reclaim()
		_, err = fmt.Fprintf(out, "buffers: %v\n", poller.Ledger())
	}
	return errors.Join(err, poller.Close(), engine.Close())
}

// line is the state of the filter: what the callback knows.
type line struct {
	next    uint64 // number that comes next
	dropped int
	held    int
	lent    chan xtreme.Lent
	failed  error
}

// receive is the callback.
func (l *line) receive(_ extraapi.Info, p xtreme.Packet) xtreme.Verdict {
	number := binary.BigEndian.Uint64(p.Bytes())
	if number < l.next {
		l.dropped++ // the other line was faster
		return extraapi.PacketDrop
	}
	l.next = number + 1
	if number%10 != 0 {
		return extraapi.PacketRecv
	}
	lent, err := p.Lend()
	if err != nil {
		l.failed = err
		return extraapi.PacketDrop
	}
	l.lent <- lent // there is room for all of a burst
	l.held++
	return extraapi.PacketHold
}

// burst is how many messages are under way at a time, so that loopback loses none.
const burst = 32

// filter sends n datagrams to a socket whose callback drops, holds or delivers each, and prints what became of them.
func filter(poller *xtreme.Poller, n int, out io.Writer) error {
	l := &line{lent: make(chan xtreme.Lent, burst)}
	socket, err := poller.OpenUDP(netip.MustParseAddrPort("127.0.0.1:0"), xtreme.UDPConfig{SocketConfig: extraapi.RecvCallback(l.receive, false)})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, socket.Path())
	released := make(chan int)
	go func() {
		count := 0
		for p := range l.lent {
			if p.Release() == nil {
				count++
			}
		}
		released <- count
	}()
	delivered, err := play(poller, socket, n)
	close(l.lent)
	elsewhere := <-released
	if err = errors.Join(err, l.failed); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d datagrams: %d dropped, %d held, %d delivered\n", socket.Stats().Packets, l.dropped, l.held, delivered)
	fmt.Fprintf(out, "%d released by another goroutine\n", elsewhere)
	if l.dropped != n || l.held != (n+9)/10 || l.held+delivered != n || elsewhere != l.held {
		return errors.New("that does not add up")
	}
	return nil
}

// play sends each message on both lines and polls.
func play(poller *xtreme.Poller, socket *xtreme.Socket, n int) (delivered int, err error) {
	var lines [2]net.Conn
	for i := range lines {
		if lines[i], err = net.Dial("udp", socket.LocalAddr().String()); err != nil {
			return 0, err
		}
		defer lines[i].Close()
	}
	var done [64]xtreme.Completion
	var b [64]byte
	for number := 0; number < n; number++ {
		binary.BigEndian.PutUint64(b[:], uint64(number))
		for _, c := range lines {
			if _, err := c.Write(b[:]); err != nil {
				return delivered, err
			}
		}
		if number%burst != burst-1 && number != n-1 {
			continue
		}
		limit := time.Now().Add(10 * time.Second)
		for socket.Stats().Packets < uint64(2*(number+1)) {
			k, err := poller.Poll(done[:])
			if err != nil {
				return delivered, err
			}
			for i := range done[:k] {
				if done[i].Events.Has(xtreme.EventPacket) {
					delivered++
				}
			}
			if _, err := extraapi.FreeCompletions(socket, done[:k]); err != nil {
				return delivered, err
			}
			if time.Now().After(limit) {
				return delivered, fmt.Errorf("%d of %d datagrams after 10 s", socket.Stats().Packets, 2*(number+1))
			}
		}
	}
	return delivered, nil
}
