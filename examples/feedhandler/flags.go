package main

import (
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/handler"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/live"
)

// list is a flag that may be given several times.
type list []string

func (l *list) String() string     { return strings.Join(*l, " ") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

// parse reads the command line.
func parse(args []string) (c config, err error) {
	f := flag.NewFlagSet("feedhandler", flag.ContinueOnError)
	var as, bs, recoveries list
	f.StringVar(&c.pcap, "pcap", "", "read a capture (pcap, pcapng, gzip; .bin is Nasdaq BinaryFILE) instead of lines")
	proto := f.String("proto", "auto", "protocol: auto, deep, tops, mdp3, moldudp64, pitch or itch")
	f.Var(&as, "a", "GROUP:PORT@INTERFACE[/SOURCE] of a channel's line A; repeated for more channels")
	f.Var(&bs, "b", "the same for line B of the same channel")
	f.Var(&recoveries, "recovery", "ADDRESS:PORT of the channel's recovery server (deep, tops, moldudp64)")
	ring := f.String("ring", string(conf.FromEnvironment().Ring), "kind of ring: auto, uring, epoll or offload (past the kernel's stack, by AF_XDP)")
	f.StringVar(&c.files.Summary, "summary", "", "file for the summary (JSON)")
	f.StringVar(&c.files.Tops, "tob", "", "file for the best levels at the end (CSV)")
	f.StringVar(&c.files.Events, "events", "", "file for what happened (JSON lines)")
	f.DurationVar(&c.gap, "gap", 5*time.Millisecond, "how long a hole may be filled by the other line")
	f.IntVar(&c.attempts, "attempts", 5, "how often one part of a hole is asked for")
	f.Uint64Var(&c.start, "start", 0, "first sequence number expected; 0 takes the first one seen")
	f.DurationVar(&c.idle, "idle", 0, "end when nothing came for so long")
	f.DurationVar(&c.duration, "duration", 0, "end after so long; the synthetic exchange's default is 10s")
	f.DurationVar(&c.offset, "clock-offset", 0, "receive clock minus sender's clock: 37s where the receiver counts TAI")
	f.BoolVar(&c.spin, "spin", false, "never rest; for a core of its own")
	f.IntVar(&c.rate, "rate", 5000, "packets a second of the synthetic exchange")
	f.IntVar(&c.loss, "loss", 100, "packets of 10,000 that each line of the synthetic exchange loses")
	f.Uint64Var(&c.seed, "seed", 1, "of the synthetic exchange")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	if f.NArg() > 0 {
		return c, fmt.Errorf("argument %q: only flags are known", f.Arg(0))
	}
	if c.proto, err = handler.ParseProto(*proto); err != nil {
		return c, fmt.Errorf("-proto: %w", err)
	}
	if c.ring, err = conf.ParseRingKind(*ring); err != nil {
		return c, fmt.Errorf("-ring: %w", err)
	}
	for _, d := range []struct {
		name string
		v    time.Duration
	}{{"gap", c.gap}, {"idle", c.idle}, {"duration", c.duration}} {
		if d.v < 0 {
			return c, fmt.Errorf("-%s %v: want a time of 0 or more", d.name, d.v)
		}
	}
	switch {
	case c.attempts < 1:
		return c, fmt.Errorf("-attempts %d: want 1 or more", c.attempts)
	case c.rate < 1 || c.rate > 1_000_000:
		return c, fmt.Errorf("-rate %d: want 1 to 1,000,000", c.rate)
	case c.loss < 0 || c.loss > 10_000:
		return c, fmt.Errorf("-loss %d: want 0 to 10,000", c.loss)
	case c.pcap != "" && len(as)+len(bs)+len(recoveries) > 0:
		return c, errors.New("-pcap: a file has its lines in it; -a, -b and -recovery are for live lines")
	case len(as) == 0 && len(bs)+len(recoveries) > 0:
		return c, errors.New("-b, -recovery: want -a too")
	case len(bs) > len(as) || len(recoveries) > len(as):
		return c, fmt.Errorf("-b, -recovery: given %d and %d times for %d channels (-a)", len(bs), len(recoveries), len(as))
	case len(as) > 0 && c.proto == handler.ITCH:
		return c, errors.New("-proto itch: messages without packets come from files only; live ITCH is -proto moldudp64")
	}
	if len(as) == 0 && c.duration == 0 {
		c.duration = 10 * time.Second
	}
	return c, c.lines(as, bs, recoveries)
}

// lines reads -a, -b and -recovery.
func (c *config) lines(as, bs, recoveries list) error {
	for i, a := range as {
		var ch live.Channel
		for _, side := range []struct {
			flag string
			all  list
		}{{"-a", list{a}}, {"-b", bs[min(i, len(bs)):min(i+1, len(bs))]}} {
			for _, text := range side.all {
				l, err := live.ParseLine(text)
				if err != nil {
					return fmt.Errorf("%s: %w", side.flag, err)
				}
				ch.Lines = append(ch.Lines, l)
			}
		}
		if i < len(recoveries) {
			var err error
			if ch.Recovery, err = netip.ParseAddrPort(recoveries[i]); err != nil {
				return fmt.Errorf("-recovery %q: want an IP address and a port", recoveries[i])
			}
			if c.proto != handler.DEEP && c.proto != handler.TOPS && c.proto != handler.MoldUDP64 {
				return fmt.Errorf("-recovery with -proto %v: only deep, tops and moldudp64 have requests over UDP; "+
					"name the protocol", c.proto)
			}
		}
		c.channels = append(c.channels, ch)
	}
	return nil
}
