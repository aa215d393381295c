// Warm-send keeps the way to a destination warm while there is nothing to send, and shows that none of it arrives.
//
//	go run ./examples/warm-send                                            # over loopback, by the kernel
//	go run ./examples/warm-send -ring offload -local 10.0.0.1:0 -to 10.0.0.2:9000   # by our own stack; a receiver is yours to run
//
// Without -to it plays the receiver too, and fails unless the one real message is all that came:
//
//	kernel uring
//	warm-send: partly: the kernel walks the system call, the socket and the route … [warm.kernel_path]
//	1000 warm sends, 0 found the path cold; 1 message sent
//	the receiver got 1: "the message that matters"
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

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
		fmt.Fprintln(os.Stderr, "warm-send:", err)
		os.Exit(2)
	}
	if err := run(c, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "warm-send:", err)
		os.Exit(1)
	}
}

type config struct {
	kind      conf.RingKind
	local, to netip.AddrPort
	n         int
	every     time.Duration
}

// parse reads the command line.
func parse(args []string) (c config, err error) {
	f := flag.NewFlagSet("warm-send", flag.ContinueOnError)
	kind := f.String("ring", string(conf.FromEnvironment().Ring), "kind of ring: auto, uring, epoll or offload")
	f.TextVar(&c.local, "local", netip.MustParseAddrPort("127.0.0.1:0"), "address to send from")
	f.TextVar(&c.to, "to", netip.AddrPort{}, "address to send to; none: a receiver of its own on loopback")
	f.IntVar(&c.n, "n", 1000, "warm sends before the message")
	f.DurationVar(&c.every, "every", 100*time.Microsecond, "time between them")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	if f.NArg() > 0 {
		return c, fmt.Errorf("argument %q: only flags are known", f.Arg(0))
	}
	if c.kind, err = conf.ParseRingKind(*kind); err != nil {
		return c, fmt.Errorf("-ring: %w", err)
	}
	if c.n < 1 || c.every < 0 {
		return c, fmt.Errorf("-n %d -every %v: want 1 or more, and no negative time", c.n, c.every)
	}
	return c, nil
}

// run opens an engine and a poller and runs the example on them.
func run(c config, out io.Writer) error {
	var receiver *net.UDPConn
	if !c.to.IsValid() {
		var err error
		if receiver, err = net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
			return err
		}
		defer receiver.Close()
		c.to = receiver.LocalAddr().(*net.UDPAddr).AddrPort()
	}
	settings := conf.FromEnvironment()
	settings.Ring = c.kind
	engine, err := xtreme.New(settings)
	if err != nil {
		return err
	}
	poller, err := engine.NewPoller("warm-send", xtreme.PollerConfig{})
	if err != nil {
		return errors.Join(err, engine.Close())
	}
	err = send(poller, c, out)
	if err == nil && receiver != nil {
		err = received(receiver, out)
	}
	return errors.Join(err, poller.Close(), engine.Close())
}

const message = "the message that matters"

// send does dummy sends at intervals on a socket and then the real send, and prints what was counted.
func send(poller *xtreme.Poller, c config, out io.Writer) error {
	socket, err := poller.OpenUDP(c.local, xtreme.UDPConfig{Remote: c.to})
	if err != nil {
		return err
	}
	about, err := extraapi.Query(socket, extraapi.WarmSend)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%v\n%v\n", socket.Path(), about)
	if err := extraapi.Prepare(socket, c.to); err != nil {
		return err
	}
	b, peer := []byte(message), netip.AddrPort{} // the zero address is the peer
	var done [8]xtreme.Completion
	for next := time.Now(); socket.Stats().WarmSends < uint64(c.n); next = next.Add(c.every) {
		switch err := extraapi.DummySend(socket, b, peer); {
		case errors.Is(err, unix.EAGAIN):
			if socket.Stats().WarmSendsCold > uint64(c.n) {
				return fmt.Errorf("%v does not answer: %w", c.to, err)
			}
		case err != nil:
			return err
		}
		for first := true; first || time.Now().Before(next); first = false {
			n, err := poller.Poll(done[:])
			if err == nil {
				_, err = extraapi.FreeCompletions(socket, done[:n])
			}
			if err != nil {
				return err
			}
		}
	}
	if _, err := socket.Send(b); err != nil {
		return err
	}
	if err := poller.Flush(); err != nil {
		return err
	}
	n := socket.Stats()
	_, err = fmt.Fprintf(out, "%d warm sends, %d found the path cold; %d message sent\n", n.WarmSends, n.WarmSendsCold, n.SentMessages)
	return err
}

// received counts what came: the message is the last.
func received(c *net.UDPConn, out io.Writer) error {
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	b := make([]byte, 2048)
	n, err := c.Read(b)
	if err != nil {
		return err
	}
	if err := c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		return err
	}
	count := 1
	for {
		if _, err := c.Read(make([]byte, 1)); err != nil {
			break // nothing more: the deadline
		}
		count++
	}
	fmt.Fprintf(out, "the receiver got %d: %q\n", count, b[:n])
	if count != 1 || string(b[:n]) != message {
		return errors.New("a warm send arrived")
	}
	return nil
}
