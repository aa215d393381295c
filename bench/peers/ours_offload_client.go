package peers

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/socketxtreme/socketxtreme/bench/harness"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

const (
	answerTimeout = 2 * time.Second // given up, counted lost, the flow goes on
	silence       = 5 * time.Second // no answer at all for so long: the run ends
)

// offloadClient is the load generator on our own stack: c/client.c's ping-pong with one flow, or single sends. It prints one line of JSON.
func offloadClient(args []string, out, errs io.Writer) error {
	var c pinger
	var device, local, peer, sample string
	var native bool
	var port, pid, cpu int
	var length, warmup float64
	f := flag.NewFlagSet("bench peer offload-client", flag.ContinueOnError)
	f.SetOutput(errs)
	f.StringVar(&device, "iface", "", "interface to send from")
	f.BoolVar(&native, "native", false, "the steering program in the interface's driver")
	f.StringVar(&local, "addr", "", "own address")
	f.StringVar(&peer, "peer", "", "the server's address")
	f.IntVar(&port, "port", 0, "the server's port")
	f.IntVar(&c.size, "window", 1, "requests outstanding")
	f.StringVar(&sample, "sample", "", "time single sends instead: prepared, unprepared or warm")
	f.Float64Var(&length, "seconds", 1, "how long to measure")
	f.Float64Var(&warmup, "warmup", 0.1, "how long to run before that")
	f.IntVar(&pid, "server-pid", 0, "process of the server; 0: not known")
	f.IntVar(&cpu, "server-cpu", -1, "CPU of the server; -1: not bound")
	if err := f.Parse(args); err != nil {
		return harness.ErrUsage
	}
	from, errFrom := netip.ParseAddr(local)
	to, errTo := netip.ParseAddr(peer)
	switch {
	case f.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", f.Arg(0))
	case device == "":
		return errors.New("-iface is missing")
	case errFrom != nil:
		return fmt.Errorf("-addr %q: %w", local, errFrom)
	case errTo != nil:
		return fmt.Errorf("-peer %q: %w", peer, errTo)
	case port < 1 || port > 65535:
		return fmt.Errorf("-port %d: want 1 to 65535", port)
	case c.size < 1 || c.size > harness.MaxWindow:
		return fmt.Errorf("-window %d: want 1 to %d", c.size, harness.MaxWindow)
	case !(length >= 0.01 && length <= 600) || !(warmup >= 0 && warmup <= 60):
		return fmt.Errorf("-seconds %g -warmup %g: want 0.01 to 600 and 0 to 60", length, warmup)
	}
	single := c.single(sample)
	if sample != "" && single == nil {
		return fmt.Errorf("-sample %q: want prepared, unprepared or warm", sample)
	}
	o, err := openOffloaded(device, native)
	if err != nil {
		return err
	}
	c.o, c.local, c.to = o, netip.AddrPortFrom(from, 0), netip.AddrPortFrom(to, uint16(port))
	c.done = make([]xtreme.Completion, pollBatch)
	if c.s, err = o.bind(c.local, xtreme.UDPConfig{Remote: c.to}); err == nil {
		mode, run := harness.PingPong, c.run
		if single != nil {
			mode, run = harness.First, func() error { return c.sends(single) }
		}
		c.m = harness.NewMeter(mode, duration(warmup), duration(length), pid, cpu)
		err = run()
	}
	if err = errors.Join(err, o.close()); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(c.m.Result())
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// pinger asks a server on one flow.
type pinger struct {
	o         *offloaded
	m         *harness.Meter
	s         *xtreme.Socket
	local, to netip.AddrPort
	size      int // of the harness.Window
	w         harness.Window
	out       [harness.MessageSize]byte
	done      []xtreme.Completion
}

// run keeps the window full until the span is over and everything is answered or given up.
func (c *pinger) run() error {
	answered := clock.Now()
	moved := answered
	for {
		now := c.m.Tick()
		if c.m.Finished && c.w.Outstanding == 0 {
			return nil
		}
		if err := c.fill(now); err != nil {
			return err
		}
		for {
			n, err := c.take()
			if err != nil {
				return err
			}
			if n > 0 {
				answered, moved = c.m.Last, c.m.Last
				break
			}
			if now = c.m.Tick(); now.Sub(moved) <= answerTimeout {
				continue
			}
			if now.Sub(answered) > silence {
				return fmt.Errorf("no answer for %s", silence)
			}
			c.w.Abandon(c.m)
			moved = now
			break
		}
	}
}

// fill sends what the window has room for. It leaves with the Poll that follows.
func (c *pinger) fill(now clock.Time) error {
	for !c.m.Finished && c.w.Outstanding < c.size {
		c.w.Request(c.m, c.out[:], now)
		if _, err := c.s.Send(c.out[:]); err != nil {
			return err
		}
	}
	return nil
}

// take polls, and reads the clock when something came.
func (c *pinger) take() (int, error) {
	n, err := c.o.poller.Poll(c.done)
	if n == 0 || err != nil {
		return 0, err
	}
	now := c.m.Tick()
	for i := range c.done[:n] {
		x := &c.done[i]
		if x.Err != nil {
			return n, x.Err
		}
		if x.Events.Has(xtreme.EventPacket) {
			c.w.Answer(c.m, x.Packet.Bytes(), now)
			if err := x.Packet.Release(); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// single is one send of a kind and what it took, from the call to the end of the flush.
func (c *pinger) single(sample string) func() (time.Duration, error) {
	switch sample {
	case "prepared":
		return func() (time.Duration, error) { return c.first(true) }
	case "unprepared":
		return func() (time.Duration, error) { return c.first(false) }
	case "warm":
		return func() (time.Duration, error) { return c.send(c.s) }
	}
	return nil
}

// first is the first send of a socket that was made for it.
func (c *pinger) first(prepare bool) (d time.Duration, err error) {
	s, err := c.o.bind(c.local, xtreme.UDPConfig{})
	if err != nil {
		return 0, err
	}
	if prepare {
		err = s.Prepare(c.to)
	}
	if err == nil {
		_, err = c.o.poller.Poll(c.done) // a turn of the loop, in which the socket is new
	}
	if err == nil {
		d, err = c.send(s)
	}
	return d, errors.Join(err, s.Close())
}

// send times one send and waits for its answer: the time of the next one begins with nothing under way.
func (c *pinger) send(s *xtreme.Socket) (time.Duration, error) {
	c.w.Request(c.m, c.out[:], c.m.Last)
	from := clock.Now()
	_, err := s.SendTo(c.out[:], c.to)
	if err == nil {
		err = c.o.poller.Flush()
	}
	sent := clock.Now()
	if err != nil {
		return 0, err
	}
	for now := sent; c.w.Outstanding > 0; now = c.m.Tick() {
		if _, err := c.take(); err != nil {
			return 0, err
		}
		if now.Sub(sent) > answerTimeout {
			c.w.Abandon(c.m)
		}
	}
	return sent.Sub(from), nil
}

// sends times one send after the other. What the reading calls latencies are these times.
func (c *pinger) sends(single func() (time.Duration, error)) error {
	c.m.Itself = true
	for !c.m.Finished {
		d, err := single()
		if err != nil {
			return err
		}
		now := c.m.Tick()
		c.m.Record(now.Add(-d), now)
		if _, err := c.o.poller.Poll(c.done); err != nil { // buffers return to the pool, sockets end
			return err
		}
	}
	return nil
}
