package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// probe serves on a free port and runs this program again as the client; the server stops when the client is done.
func probe(ctx context.Context, c config) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	c.listen = netip.AddrPortFrom(c.listen.Addr(), 0)
	result := make(chan error, 1)
	err := run(ctx, c, func(srv *server) {
		fmt.Printf("serving on %v, %d loop(s), rest %s\n%s", srv.addr, c.reactors, c.rest, srv.paths())
		go func() {
			result <- measure(ctx, c, srv.addr)
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
	proto := map[[2]bool]string{{true, true}: "tcp,udp", {true, false}: "tcp", {false, true}: "udp"}[[2]bool{c.tcp, c.udp}]
	ctx, cancel := context.WithTimeout(ctx, c.probe+30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, "-client", "-listen", to.String(), "-proto", proto, "-ring", string(c.ring),
		"-rest", c.rest, "-probe", c.probe.String(), "-reply", c.reply)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Println(lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("client: %w", err)
	}
	return nil
}

const (
	payload = 64                     // bytes of a probe message
	late    = 200 * time.Millisecond // a datagram that is not back by then is lost
	dead    = 5 * time.Second        // a TCP server that does not answer for so long is gone
	warmUp  = 100 * time.Millisecond // what is answered before it does not count; of a short time, a quarter
)

// client measures the round trip of one message at a time, over each protocol for an equal part of the time.
func client(ctx context.Context, c config) error {
	settings := conf.FromEnvironment()
	settings.Ring = c.ring
	engine, err := xtreme.New(settings)
	if err != nil {
		return err
	}
	poller, err := engine.NewPoller("probe", xtreme.PollerConfig{})
	if err != nil {
		return err
	}
	parts := 0
	for _, on := range []bool{c.tcp, c.udp} {
		if on {
			parts++
		}
	}
	each := c.probe / time.Duration(parts)
	fmt.Printf("client: another process, %d B messages, one at a time, %v per protocol, %d processors\n", payload, each, runtime.NumCPU())
	if c.tcp {
		s, err := poller.DialTCP(c.listen, xtreme.DialConfig{NoDelay: xtreme.On, Timeout: 5 * time.Second})
		if err == nil {
			err = pingPong(ctx, poller, s, "TCP", each, c)
		}
		if err != nil {
			return errors.Join(err, poller.Close())
		}
	}
	if c.udp {
		s, err := poller.OpenUDP(netip.AddrPort{}, xtreme.UDPConfig{Remote: c.listen})
		if err == nil {
			err = pingPong(ctx, poller, s, "UDP", each, c)
		}
		if err != nil {
			return errors.Join(err, poller.Close())
		}
	}
	return errors.Join(poller.Close(), engine.Close())
}

// pingPong sends, waits for the answer, and so on until the time is over; then it prints what it saw.
func pingPong(ctx context.Context, p *xtreme.Poller, s *xtreme.Socket, name string, d time.Duration, c config) error {
	hist := hdrhistogram.New(100, int64(dead), 3)
	var done [16]xtreme.Completion
	message := make([]byte, payload)
	var got, lost, seq uint64
	begin := time.Now()
	idle, limit := 0, late
	waits := c.rest == "wait" || runtime.NumCPU() == 1
	if name == "TCP" {
		limit = dead
		for connected := false; !connected; {
			n, err := p.Poll(done[:])
			if err != nil {
				return err
			}
			for _, e := range done[:n] {
				if e.Err != nil {
					return fmt.Errorf("connect %v: %w", c.listen, e.Err)
				}
				connected = connected || e.Events.Has(xtreme.EventOut)
			}
		}
	}
	// On a machine that is busy with other things a short time may hold no answer: then it is not over until there is one.
	for now := begin; (now.Sub(begin) < d || got == 0 && lost < 5) && ctx.Err() == nil; {
		seq++
		binary.BigEndian.PutUint64(message, seq)
		binary.BigEndian.PutUint16(message[8:], flagClient|flagPong)
		binary.BigEndian.PutUint32(message[10:], payload)
		sent := time.Now()
		if _, err := s.Send(message); err != nil {
			return err
		}
		have, answered := 0, false
		for !answered {
			n, err := p.Poll(done[:])
			if err != nil {
				return err
			}
			for i := range done[:n] {
				e := &done[i]
				if e.Err != nil || e.Events.Any(xtreme.EventRdHup|xtreme.EventHup) {
					return fmt.Errorf("%s: the server ended the conversation: %v %v", name, e.Events, e.Err)
				}
				if e.Events.Has(xtreme.EventPacket) {
					if b := e.Packet.Bytes(); name == "TCP" || len(b) == payload && binary.BigEndian.Uint64(b) == seq { // else it is late
						have += e.Packet.Len()
					}
					if err := e.Packet.Release(); err != nil {
						return err
					}
				}
			}
			if answered = have >= payload; answered {
				break
			}
			if n > 0 {
				idle = 0
				continue
			}
			if idle++; (waits || idle&1023 == 0) && time.Since(sent) > limit {
				if name == "TCP" {
					return fmt.Errorf("TCP: no answer in %v", limit)
				}
				lost++
				break
			}
			if waits {
				if err := p.WaitFor(late); err != nil {
					return err
				}
			}
		}
		now = time.Now()
		if answered && now.Sub(begin) > min(warmUp, d/4) {
			got++
			_ = hist.RecordValue(int64(now.Sub(sent))) // beyond the limit it would be lost or an error above
		}
	}
	if got == 0 {
		return fmt.Errorf("%s: no answer at all (%d lost)", name, lost)
	}
	us := func(q float64) float64 { return float64(hist.ValueAtQuantile(q)) / 1e3 }
	fmt.Printf("%s round trip: %d answers, %d lost; p50 %.1f µs, p90 %.1f, p99 %.1f, p99.9 %.1f, max %.1f\n",
		name, got, lost, us(50), us(90), us(99), us(99.9), float64(hist.Max())/1e3)
	return s.Close()
}
