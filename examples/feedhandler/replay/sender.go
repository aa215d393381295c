package replay

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/examples/feedhandler/capture"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/handler"
)

// Line sends what a capture has for one destination to another one.
type Line struct {
	From  netip.AddrPort // destination in the capture; the zero value is every one
	To    netip.AddrPort
	Index int // 0 is A, 1 is B: which impairments hold
	// Interface is where the line's multicast leaves; "" is Config.Interface.
	Interface string
}

// Config says what to send and how.
type Config struct {
	Pcap      string // capture file; .bin is Nasdaq's BinaryFILE, which is sent as MoldUDP64
	Interface string // where multicast leaves, unless the line says so itself
	Lines     []Line
	Speed     float64 // 1 is the capture's; 0 is as fast as possible
	PPS       float64 // packets of the capture a second, instead of Speed
	From      uint64  // first record to send, counted from 1
	Count     uint64  // records to send; 0 is all
	Impair    Impairment
	Recovery  netip.AddrPort // where to answer requests; the zero value is nowhere
	Mode      Mode
	Linger    time.Duration // how long to answer requests after the end, unless the context ends
	Log       io.Writer     // line, index, ns since the start, of each packet of the capture sent
	Ready     func(*Server) // called before the first packet is sent; the server may be nil
	// Pace is called before each packet but the first, with how many were sent: it may wait; an error ends the run.
	Pace func(sent uint64) error
	// Slow, if set, is what a server with Mode Slow waits for before each answer. It must return when the context ends.
	Slow func()
	// Ended is called before Linger, when everything was sent, heartbeats included.
	Ended func(sent uint64)
}

// Report is what was sent.
type Report struct {
	Records  uint64 // of the capture, played
	Messages int    // in the store at the end
	Sent     []uint64
	Dropped  []uint64 // by line
	Requests uint64
}

// Run sends a capture.
func Run(ctx context.Context, c Config) (rep Report, err error) {
	in, err := openSource(c.Pcap)
	if err != nil {
		return rep, err
	}
	defer in.Close() //nolint:errcheck // only read from
	p := &player{c: c, rep: Report{Sent: make([]uint64, len(c.Lines))}}
	conns := map[string]*net.UDPConn{}
	for _, l := range c.Lines {
		name := l.Interface
		if name == "" {
			name = c.Interface
		}
		conn := conns[name]
		if conn == nil {
			if conn, err = Sender(name); err != nil {
				return rep, err
			}
			defer conn.Close() //nolint:errcheck // nothing is buffered
			conns[name] = conn
		}
		p.conns = append(p.conns, conn)
		p.spoilers = append(p.spoilers, &spoiler{m: &p.c.Impair, line: l.Index})
	}
	if err := p.learn(); err != nil {
		return rep, err
	}
	var server *Server
	if c.Recovery.IsValid() {
		if p.store == nil {
			return rep, fmt.Errorf("%s: no protocol whose messages can be asked for: want deep, tops or moldudp64", c.Pcap)
		}
		if server, err = serve(c.Recovery, p.store, c.Mode, c.Slow); err != nil {
			return rep, err
		}
		defer server.Close() //nolint:errcheck // no request is owed an answer
	}
	if c.Ready != nil {
		c.Ready(server)
	}
	err = p.play(ctx, in)
	if p.store != nil {
		p.rep.Messages = p.store.Len()
	}
	if err == nil && c.Ended != nil {
		c.Ended(p.written)
	}
	if err == nil && server != nil {
		sleep(ctx, c.Linger)
	}
	if server != nil {
		p.rep.Requests = server.Requests.Load()
	}
	for _, s := range p.spoilers {
		p.rep.Dropped = append(p.rep.Dropped, s.Dropped)
	}
	return p.rep, err
}

// Sender is a socket whose multicast stays on one interface and reaches members on this host.
func Sender(iface string) (*net.UDPConn, error) {
	ifi, err := net.InterfaceByName(iface)
	if err != nil {
		return nil, fmt.Errorf("interface %q: %w", iface, err)
	}
	lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		if err := raw.Control(func(fd uintptr) {
			failed = errors.Join(
				unix.SetsockoptIPMreqn(int(fd), unix.IPPROTO_IP, unix.IP_MULTICAST_IF, &unix.IPMreqn{Ifindex: int32(ifi.Index)}),
				unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MULTICAST_LOOP, 1),
				unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MULTICAST_TTL, 1))
		}); err != nil {
			return err
		}
		return failed
	}}
	address := ":0"
	if ifi.Flags&net.FlagLoopback != 0 {
		address = "127.0.0.1:0"
	}
	c, err := lc.ListenPacket(context.Background(), "udp4", address)
	if err != nil {
		return nil, fmt.Errorf("multicast sender on %s: %w", iface, err)
	}
	return c.(*net.UDPConn), nil
}

// player is one run.
type player struct {
	c        Config
	conns    []*net.UDPConn // by line
	spoilers []*spoiler
	store    *Store
	dialect  *dialect
	tails    []tail // by line, where there is a store
	queue    queue
	n        uint64 // queued
	written  uint64
	start    time.Time
	rep      Report
	base     uint64 // sequence numbers are less by so much
	later    int64
	session  bool
}

// learn finds out which protocol the capture has, for what needs to know.
func (p *player) learn() error {
	m := &p.c.Impair
	in, err := openSource(p.c.Pcap)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // only read from
	var rec capture.Record
	proto := handler.Auto
	for proto == handler.Auto && in.Next(&rec) == nil {
		if rec.Kind == capture.UDP {
			proto = handler.Recognize(rec.Payload)
		}
	}
	d, err := newDialect(proto)
	if err != nil {
		if m.Recut[0] || m.Recut[1] || m.SessionAt > 0 || m.RestartAt > 0 {
			return fmt.Errorf("%s: %w", p.c.Pcap, err)
		}
		return nil
	}
	p.dialect, p.store = d, newStore(d)
	for range p.c.Lines {
		p.tails = append(p.tails, tail{d: *d})
	}
	for _, s := range p.spoilers {
		if m.Recut[s.line] {
			own := *d
			s.cut = &recutter{d: &own}
		}
	}
	return nil
}

// play sends everything at its time.
func (p *player) play(ctx context.Context, in source) error {
	p.start = time.Now()
	var rec capture.Record
	var first int64
	var at time.Duration
	for index := uint64(1); ; index++ {
		err := in.Next(&rec)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || p.c.Count > 0 && p.rep.Records == p.c.Count {
			break
		}
		if err != nil {
			return err
		}
		if index < p.c.From || rec.Kind != capture.UDP {
			continue
		}
		if p.rep.Records == 0 {
			first = rec.Time
		}
		switch {
		case p.c.PPS > 0:
			at = time.Duration(float64(p.rep.Records) / p.c.PPS * 1e9)
		case p.c.Speed > 0:
			at = time.Duration(float64(rec.Time-first) / p.c.Speed)
		}
		p.rep.Records++
		p.renumber(rec.Payload)
		for i, l := range p.c.Lines {
			if l.From.IsValid() && l.From != rec.Dst {
				continue
			}
			if p.store != nil {
				p.tails[i].follow(rec.Payload)
				if l.Index == 0 {
					p.store.Add(rec.Payload)
				}
			}
			p.spoilers[i].take(at, rec.Payload, func(o out) { p.push(i, o) })
		}
		if err := p.send(ctx, at); err != nil {
			return err
		}
	}
	for i, s := range p.spoilers {
		s.flush(at, func(o out) { p.push(i, o) })
	}
	if err := p.send(ctx, 1<<62); err != nil {
		return err
	}
	return p.heartbeats(ctx)
}

// tail is where a line's stream stands.
type tail struct {
	d    dialect // with the session of the last packet
	next uint64  // 0: nothing in sequence was sent
}

// follow notes a packet of the capture.
func (t *tail) follow(b []byte) {
	if k, ok := t.d.parse(b); ok && k.seq > 0 {
		t.next = k.seq + uint64(k.count)
	}
}

// heartbeats say where each line's stream ended, so that a lost tail is noticed.
func (p *player) heartbeats(ctx context.Context) error {
	for i := range 3 {
		if i > 0 && !sleep(ctx, 20*time.Millisecond) {
			return ctx.Err()
		}
		for line := range p.tails {
			t := &p.tails[line]
			if t.next == 0 {
				continue
			}
			if err := p.write(t.d.finish(t.d.begin(nil, t.next), 0), line); err != nil {
				return err
			}
		}
	}
	return nil
}

// renumber begins a new session, or the same one again, where that is wanted.
func (p *player) renumber(b []byte) {
	m := &p.c.Impair
	if p.dialect == nil || m.SessionAt == 0 && m.RestartAt == 0 {
		return
	}
	k, ok := p.dialect.parse(b)
	if !ok {
		return
	}
	switch p.rep.Records {
	case m.SessionAt:
		p.base, p.session = k.seq-1, true
	case m.RestartAt:
		p.base, p.later = k.seq-1, p.later+int64(5*time.Second)
	}
	if p.base > 0 {
		p.dialect.renumber(b, k.seq-p.base, p.session, p.later)
	}
}

func (p *player) push(line int, o out) {
	p.n++
	o.n, o.line = p.n, line
	heap.Push(&p.queue, o)
}

// send sends what is due before or at a time: it sleeps far from a packet's time and spins near it.
func (p *player) send(ctx context.Context, until time.Duration) error {
	for len(p.queue) > 0 && p.queue[0].at <= until {
		o := heap.Pop(&p.queue).(out)
		if p.c.Speed > 0 || p.c.PPS > 0 {
			if wait := o.at - time.Since(p.start); wait > 2*time.Millisecond {
				if !sleep(ctx, wait-time.Millisecond) {
					return ctx.Err()
				}
			}
			for time.Since(p.start) < o.at {
			}
		}
		if p.n&255 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := p.write(o.b, o.line); err != nil {
			return err
		}
		p.rep.Sent[o.line]++
		if p.c.Log != nil {
			if _, err := fmt.Fprintf(p.c.Log, "%d,%d,%d\n", o.line, o.i, time.Since(p.start).Nanoseconds()); err != nil {
				return err
			}
		}
	}
	return nil
}

// write sends one packet on a line when Config.Pace lets it.
func (p *player) write(b []byte, line int) error {
	if p.c.Pace != nil && p.written > 0 {
		if err := p.c.Pace(p.written); err != nil {
			return err
		}
	}
	to := p.c.Lines[line].To
	if _, err := p.conns[line].WriteToUDPAddrPort(b, to); err != nil {
		return fmt.Errorf("send to %v: %w", to, err)
	}
	p.written++
	return nil
}

// sleep reports whether the time passed without the context ending.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// queue is a heap by time, then order.
type queue []out

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].at < q[j].at || q[i].at == q[j].at && q[i].n < q[j].n }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(out)) }
func (q *queue) Pop() any {
	o := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return o
}
