// Package live feeds a handler's channels from rings: one owner polls the sockets of all lines, on whatever interfaces
// they are, with a share of each poll for every ring, and on an offloaded ring for every link; the packets go to the
// sequencer by reference and their buffers come back when they are used.
package live

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/handler"
	"github.com/socketxtreme/socketxtreme/feed"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Channel is one channel's lines and where to ask for what is missing.
type Channel struct {
	Handler  handler.Config
	Lines    []Line
	Recovery netip.AddrPort // the zero value: nobody
}

// Config is what a run is made with.
type Config struct {
	Ring     conf.RingKind
	Channels []Channel
	Idle     time.Duration // end when nothing came for so long; 0 never does
	Spin     bool          // never rest: for cores of one's own
	// Each, if set, is called about ten times a second on the polling goroutine: for a view.
	Each func(*Live)
	// Moved, if set, is called on the polling goroutine when the path of a line, or of recovery, changes: its interface is gone or is back.
	Moved func(line string, p xtreme.Path)
}

// Live is a running handler. Everything is for the goroutine that runs it.
type Live struct {
	Channels []*handler.Channel
	Packets  uint64 // received

	WireToUser *hdrhistogram.Histogram // the receive stamp to Poll's return; a ring's own stamp is too young to tell
	UserToBook *hdrhistogram.Histogram // Poll's return to the batch's end: every packet of it in the books

	c      Config
	engine *xtreme.Engine
	poller *xtreme.Poller
	routes []route                 // by user data
	askers []asker                 // by channel
	feeds  []*xtreme.FeedPublisher // by channel
	errors uint64                  // ICMP and the like
	cut    uint64                  // datagrams longer than a buffer
	ring   handler.RingSummary
	stamps [xtreme.StampRawHardware + 1]bool // sources of receive times seen
	polled func()                            // for tests: after each Poll, when what it gave is dealt with
}

// route says whose socket it is.
type route struct {
	socket  *xtreme.Socket
	channel int
	line    uint8
	packets uint64 // read
	kernel  uint64 // of them by the kernel's socket beside an offloaded one
}

// asker sends a channel's recovery requests.
type asker struct {
	socket  *xtreme.Socket
	buf     []byte // the request being sent
	refused uint64
}

const (
	largestDatagram = 2048     // feeds keep to Ethernet's 1,500
	receiveBuffer   = 16 << 20 // what the kernel may hold while the loop is away
	smallBuffers    = 16384    // half of them may be parked: a socket may hold as much as is still free
	slots           = 4096     // packets of a channel that wait behind a hole: a tenth of a second at 40,000 a second
	rest            = 5 * time.Millisecond
	spins           = 2000 // empty polls before a sleep
	patience        = 1024 // packets in a row before timers are looked at nevertheless; a quarter of what can be parked
)

// Open joins the lines. After it returns without error nothing sent on them is missed.
func Open(c Config) (l *Live, err error) {
	settings := conf.FromEnvironment()
	if c.Ring != "" {
		settings.Ring = c.Ring
	}
	l = &Live{c: c, WireToUser: hdrhistogram.New(1, 60e9, 3), UserToBook: hdrhistogram.New(1, 60e9, 3)}
	if l.engine, err = xtreme.New(settings); err != nil {
		return nil, err
	}
	if l.poller, err = l.engine.NewPoller("feed", xtreme.PollerConfig{SmallBuffers: smallBuffers, LargeBuffers: 64}); err != nil {
		return nil, errors.Join(err, l.engine.Close())
	}
	defer func() {
		if err != nil {
			_, _ = l.poller.Close(), l.engine.Close() // err tells more
		}
	}()
	for i, ch := range c.Channels {
		k := ch.Handler
		k.Lines = nil
		k.Feed.PollOnly, k.Feed.Slots = true, slots
		k.OnEvent = l.journal(ch.Lines, k.OnEvent)
		for _, line := range ch.Lines {
			k.Lines = append(k.Lines, line.Group)
		}
		h, err := handler.NewChannel(k)
		if err != nil {
			return nil, err
		}
		l.Channels = append(l.Channels, h)
		l.feeds = append(l.feeds, l.engine.PublishFeed(h.Name(), lineNames(ch.Lines)...))
		for n, line := range ch.Lines {
			if err := l.join(i, uint8(n), line); err != nil {
				return nil, err
			}
		}
		var a asker
		if ch.Recovery.IsValid() {
			a.buf = make([]byte, 0, 64)
			a.socket, err = l.poller.OpenUDP(netip.AddrPort{}, xtreme.UDPConfig{
				SocketConfig:    xtreme.SocketConfig{UserData: xtreme.Ptr(uint64(len(l.routes)))},
				IPConfig:        xtreme.IPConfig{ReceiveBuffer: receiveBuffer},
				Remote:          ch.Recovery,
				LargestDatagram: largestDatagram,
			})
			if err != nil {
				return nil, fmt.Errorf("recovery server %v: %w", ch.Recovery, err)
			}
			l.feeds[i].SetSocket(feed.Recovery, a.socket)
			l.routes = append(l.routes, route{socket: a.socket, channel: i, line: feed.Recovery})
		}
		l.askers = append(l.askers, a)
	}
	return l, nil
}

// join opens the socket of a line and joins its group.
func (l *Live) join(channel int, n uint8, line Line) error {
	s, err := l.poller.OpenUDP(line.Group, xtreme.UDPConfig{
		SocketConfig:    xtreme.SocketConfig{UserData: xtreme.Ptr(uint64(len(l.routes)))},
		IPConfig:        xtreme.IPConfig{ReuseAddr: true, ReceiveBuffer: receiveBuffer},
		Groups:          []xtreme.Group{{Interface: line.Interface, Source: line.Source}},
		LargestDatagram: largestDatagram,
		Timestamps:      true,
	})
	if err != nil {
		return fmt.Errorf("line %v: %w", line, err)
	}
	l.feeds[channel].SetSocket(n, s)
	l.routes = append(l.routes, route{socket: s, channel: channel, line: n})
	return nil
}

// Paths is how each line's packets travel, and why not better.
func (l *Live) Paths() (all []string) {
	for i := range l.routes {
		all = append(all, fmt.Sprintf("%s: %v", l.name(&l.routes[i]), l.routes[i].socket.Path().Explain()))
	}
	return all
}

// name returns the name of a line's socket for the report.
func (l *Live) name(r *route) string {
	if r.line == feed.Recovery {
		return "recovery"
	}
	return l.c.Channels[r.channel].Lines[r.line].String()
}

// Poller is what polls the lines, for sockets that the program opens beside them. Owner only: inside Config.Each, or before Run.
func (l *Live) Poller() *xtreme.Poller { return l.poller }

// Socket is the socket of a line of a channel. Owner only.
func (l *Live) Socket(channel int, line uint8) *xtreme.Socket {
	for i := range l.routes {
		if r := &l.routes[i]; r.channel == channel && r.line == line {
			return r.socket
		}
	}
	return nil
}

// ViaKernel is how many packets of a line came by the kernel's socket beside an offloaded one, so far. Owner only.
func (l *Live) ViaKernel(channel int, line uint8) (n uint64) {
	for i := range l.routes {
		if r := &l.routes[i]; r.channel == channel && r.line == line {
			n += r.kernel
		}
	}
	return n
}

// Run handles packets until the context ends or nothing came for Config.Idle, and closes everything.
func (l *Live) Run(ctx context.Context) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var done [128]xtreme.Completion
	received := time.Now()
	var looked time.Time
	before := received.UnixNano()
	for _, c := range l.Channels {
		c.Poll(before) // from now on a silent line is a dead one
	}
	for empty, unread := 0, 0; ; {
		n, err := l.poller.Poll(done[:])
		if err != nil {
			return errors.Join(err, l.close())
		}
		now := time.Now() // once for the batch
		at := now.UnixNano()
		if n > 0 {
			l.batch(done[:n], at)
			received, empty = now, 0
		}
		// Only when everything was read is a hole one: until then the missing packet may lie in the other line's socket. So
		// the time is the one before that Poll. Under endless load that is not waited for for ever; by packets, because after
		// a pause of the whole process time says nothing.
		if unread += n; n == 0 || unread >= patience {
			unread = 0
			l.timers(before)
		}
		if n > 0 || now.Sub(looked) >= 100*time.Millisecond {
			l.publish()
		}
		before = at
		if l.polled != nil {
			l.polled()
		}
		if now.Sub(looked) >= 100*time.Millisecond {
			looked = now
			if ctx.Err() != nil || l.c.Idle > 0 && now.Sub(received) >= l.c.Idle {
				break
			}
			if l.c.Each != nil {
				l.poller.MarkWork(xtreme.WorkTimers) // what this takes is called so by xtstat
				l.c.Each(l)
				l.poller.MarkWork(xtreme.WorkUnknown)
			}
		}
		if n > 0 {
			continue
		}
		if empty++; empty < spins || l.c.Spin {
			continue
		}
		if err := l.poller.WaitFor(l.pause(at)); err != nil {
			return errors.Join(err, l.close())
		}
	}
	return l.close()
}

// batch handles what one Poll gave.
func (l *Live) batch(done []xtreme.Completion, at int64) {
	packets := 0
	for _, c := range l.Channels {
		c.Tick(at)
	}
	for i := range done {
		c := &done[i]
		if c.UserData >= uint64(len(l.routes)) {
			continue
		}
		r := &l.routes[c.UserData]
		if c.Events.Has(xtreme.EventPath) && l.c.Moved != nil {
			l.c.Moved(l.name(r), r.socket.Path())
		}
		packet := c.Events.Has(xtreme.EventPacket)
		if c.Events.Has(xtreme.EventErr) || c.Err != nil && !packet { // an error may come with a packet; a cut one's Err is its own
			l.errors++
			if r.line == feed.Recovery {
				l.askers[r.channel].refused++
			}
		}
		if !packet {
			continue
		}
		packets++
		r.packets++
		arrival := at
		if c.ViaKernel {
			r.kernel++
		}
		if !c.Time.IsZero() {
			arrival = c.Time.Nanos
			l.stamps[c.Time.Source] = true
			if c.Time.Source != xtreme.StampPoll {
				_ = l.WireToUser.RecordValue(max(at-arrival, 1)) // beyond a minute it is no latency
			}
		}
		if c.Err != nil { // cut: for the sequence it is lost on this line
			l.cut++
			_ = c.Packet.Release() // just polled: it is ours
			continue
		}
		l.Channels[r.channel].Input(r.line, c.Packet.Bytes(), arrival, c.Packet)
	}
	l.Packets += uint64(packets)
	if packets > 0 {
		_ = l.UserToBook.RecordValue(max(time.Now().UnixNano()-at, 1)) // likewise
	}
}

// publish stores what the channels have counted for xtstat and /metrics.
func (l *Live) publish() {
	for i, c := range l.Channels {
		l.feeds[i].Store(c)
	}
}

// timers does what is due and asks for what is missing.
func (l *Live) timers(at int64) {
	for i, c := range l.Channels {
		if at >= c.Deadline() {
			c.Poll(at)
		}
		a := &l.askers[i]
		if a.socket == nil {
			continue
		}
		for r := (feed.Request{}); c.Request(at, &r); {
			// What is not sent, or not answered, is asked for again after its time-out, a bounded number of times.
			a.buf = c.AppendRequest(a.buf[:0], r)
			_, _ = a.socket.Send(a.buf)
		}
	}
}

// pause is how long there is nothing to do, if nothing comes.
func (l *Live) pause(at int64) time.Duration {
	d := rest
	for _, c := range l.Channels {
		d = min(d, time.Duration(c.Deadline()-at))
	}
	return max(d, 0)
}
