// Mdreplay sends the packets of a capture on one or two multicast lines, applies the configured impairments, and answers
// recovery requests: the counterpart of the feed handler.
//
//	mdreplay -pcap deep.pcap.gz -ab 239.1.1.1:10378,239.1.1.2:10378 -speed 100 -loss 100,100 -recovery 127.0.0.1:10379
//	mdreplay -pcap cme.pcap -map 224.0.31.64:14340=239.1.1.1:14340 -map 224.0.32.64:15340=239.1.1.2:15340 -speed 10
//	mdreplay -pcap deep.pcap.gz -ab 239.1.1.1:10378,239.1.1.2:10378 -iface eth1,eth2
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"net/netip"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/socketxtreme/socketxtreme/examples/feedhandler/replay"
)

func main() {
	c, o, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case err != nil:
		fmt.Fprintln(os.Stderr, "mdreplay:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if o.credit {
		ctx = obey(ctx, &c, os.Stdin)
	}
	if err := run(ctx, c, o.log); err != nil {
		fmt.Fprintln(os.Stderr, "mdreplay:", err)
		os.Exit(1)
	}
}

// options are what concerns the program, not the replay.
type options struct {
	log    string // file
	credit bool
}

// run runs the synthetic exchange until it has sent everything or ctx ends.
func run(ctx context.Context, c replay.Config, logFile string) (err error) {
	if logFile != "" {
		f, err := os.Create(logFile)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		c.Log = f
	}
	c.Ready = func(s *replay.Server) {
		if s != nil {
			fmt.Printf("recovery server on %v (%s)\n", s.Addr(), c.Mode)
		}
	}
	begin := time.Now()
	rep, err := replay.Run(ctx, c)
	fmt.Printf("%d records played in %v", rep.Records, time.Since(begin).Round(time.Millisecond))
	for i, n := range rep.Sent {
		fmt.Printf(", %v: %d sent", c.Lines[i].To, n)
		if i < len(rep.Dropped) {
			fmt.Printf(" %d dropped", rep.Dropped[i])
		}
	}
	fmt.Printf(", %d recovery requests\n", rep.Requests)
	return err
}

// list is a flag that may be given several times.
type list []string

func (l *list) String() string     { return strings.Join(*l, " ") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

// parse reads the command line.
func parse(args []string) (c replay.Config, o options, err error) {
	f := flag.NewFlagSet("mdreplay", flag.ContinueOnError)
	var maps, both list
	f.StringVar(&c.Pcap, "pcap", "", "capture file, may be compressed with gzip")
	f.StringVar(&c.Interface, "iface", "lo", "interface that multicast leaves by; A,B where line B has another one")
	f.Var(&maps, "map", "GROUP:PORT of the capture = GROUP:PORT to send to; repeated: A, B, A, B …")
	ab := f.String("ab", "", "A,B: send everything in the capture to both; or A alone")
	speed := f.String("speed", "1", "how much faster than the capture, or max")
	f.Float64Var(&c.PPS, "pps", 0, "packets of the capture a second, instead of -speed")
	f.Uint64Var(&c.From, "from", 1, "first record to send")
	f.Uint64Var(&c.Count, "count", 0, "records to send; 0 is all")
	m := &c.Impair
	f.Uint64Var(&m.Seed, "seed", 1, "of everything random")
	rates := map[string]*[2]uint32{"loss": &m.Loss, "duplicate": &m.Duplicate, "reorder": &m.Reorder,
		"truncate": &m.Truncate, "foreign": &m.Foreign}
	texts := map[string]*string{}
	for name, help := range map[string]string{"loss": "lost", "duplicate": "sent twice",
		"reorder": "sent after their successor", "truncate": "cut to half", "foreign": "preceded by a foreign one"} {
		texts[name] = f.String(name, "0", "packets of 10,000 that are "+help+": A,B or one number for both")
	}
	f.Var(&both, "lose-both", "FROM-TO: packets lost on both lines; repeated")
	burst := f.String("burst", "", "N/M: N packets in a row of every M are lost")
	var dead [2]*string
	dead[0] = f.String("dead-a", "", "FROM-TO or FROM-: packets that line A does not send")
	dead[1] = f.String("dead-b", "", "the same for line B")
	f.DurationVar(&m.Delay[0], "delay-a", 0, "how much later line A is")
	f.DurationVar(&m.Delay[1], "delay-b", 0, "how much later line B is")
	jitter := f.Duration("jitter", 0, "up to so much more, on both lines")
	f.BoolVar(&m.Recut[1], "recut-b", false, "line B cuts the messages into other packets")
	f.Uint64Var(&m.SessionAt, "session-at", 0, "record from which on the session is another one")
	f.Uint64Var(&m.RestartAt, "restart-at", 0, "record from which on the sequence begins again in the same session")
	recovery := f.String("recovery", "", "address and port to answer recovery requests on")
	mode := f.String("recovery-mode", "normal", "normal, partial, silent, slow, limited or refuse")
	f.DurationVar(&c.Linger, "linger", 2*time.Second, "how long to answer requests after the end")
	f.StringVar(&o.log, "log", "", "file for line, index and time of each packet sent")
	f.BoolVar(&o.credit, "credit", false, "standard input says, a number a line, how many packets may have been sent by then; its end ends")
	if err := f.Parse(args); err != nil {
		return c, o, err
	}
	if f.NArg() > 0 {
		return c, o, fmt.Errorf("argument %q: only flags are known", f.Arg(0))
	}
	if c.Pcap == "" {
		return c, o, errors.New("-pcap: want a capture file")
	}
	m.Jitter = [2]time.Duration{*jitter, *jitter}
	if *speed != "max" {
		if c.Speed, err = strconv.ParseFloat(*speed, 64); err != nil || c.Speed <= 0 || math.IsInf(c.Speed, 0) ||
			math.IsNaN(c.Speed) {
			return c, o, fmt.Errorf("-speed %q: want a number above 0, or max", *speed)
		}
	}
	if c.PPS < 0 {
		return c, o, fmt.Errorf("-pps %v: want 0 or more", c.PPS)
	}
	if c.PPS > 0 {
		c.Speed = 0
	}
	for name, into := range rates {
		if *into, err = replay.ParsePair(*texts[name]); err != nil {
			return c, o, fmt.Errorf("-%s: %w", name, err)
		}
	}
	for _, s := range both {
		span, err := replay.ParseSpan(s)
		if err != nil {
			return c, o, fmt.Errorf("-lose-both: %w", err)
		}
		m.Both = append(m.Both, span)
	}
	for i, s := range dead {
		if *s == "" {
			continue
		}
		if m.Dead[i], err = replay.ParseSpan(*s); err != nil {
			return c, o, fmt.Errorf("-dead-%c: %w", 'a'+i, err)
		}
	}
	if *burst != "" {
		if n, err := fmt.Sscanf(*burst, "%d/%d", &m.BurstLen, &m.BurstGap); n != 2 || err != nil || m.BurstLen >= m.BurstGap {
			return c, o, fmt.Errorf("-burst %q: want N/M with N below M", *burst)
		}
	}
	if c.Mode, err = replay.ParseMode(*mode); err != nil {
		return c, o, fmt.Errorf("-recovery-mode: %w", err)
	}
	if *recovery != "" {
		if c.Recovery, err = netip.ParseAddrPort(*recovery); err != nil {
			return c, o, fmt.Errorf("-recovery %q: want an IP address and a port", *recovery)
		}
	}
	if c.Lines, err = lines(maps, *ab); err != nil {
		return c, o, err
	}
	a, b, two := strings.Cut(c.Interface, ",")
	if a == "" || two && (b == "" || strings.Contains(b, ",")) {
		return c, o, fmt.Errorf("-iface %q: want one interface, or one of line A and one of line B", c.Interface)
	}
	if c.Interface = a; two {
		for i := range c.Lines {
			c.Lines[i].Interface = []string{a, b}[c.Lines[i].Index]
		}
	}
	return c, o, nil
}

// lines reads -map and -ab.
func lines(maps list, ab string) (all []replay.Line, err error) {
	address := func(flag, s string) (netip.AddrPort, error) {
		a, err := netip.ParseAddrPort(s)
		if err != nil {
			return a, fmt.Errorf("%s %q: want an IP address and a port, such as 239.1.1.1:14340", flag, s)
		}
		return a, nil
	}
	if (len(maps) > 0) == (ab != "") {
		return nil, errors.New("want either -ab or -map: where to send to")
	}
	for i, m := range maps {
		from, to, ok := strings.Cut(m, "=")
		if !ok {
			return nil, fmt.Errorf("-map %q: want FROM=TO", m)
		}
		l := replay.Line{Index: i % 2}
		if l.From, err = address("-map", from); err != nil {
			return nil, err
		}
		if l.To, err = address("-map", to); err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	if ab != "" {
		for i, s := range strings.Split(ab, ",") {
			if i > 1 {
				return nil, fmt.Errorf("-ab %q: want one or two addresses", ab)
			}
			to, err := address("-ab", s)
			if err != nil {
				return nil, err
			}
			all = append(all, replay.Line{To: to, Index: i})
		}
	}
	return all, nil
}
