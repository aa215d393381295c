package replay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/socketxtreme/socketxtreme/examples/feedhandler/handler"
	"github.com/socketxtreme/socketxtreme/feed"
	"github.com/socketxtreme/socketxtreme/feed/iextp"
	"github.com/socketxtreme/socketxtreme/feed/iextp/deep"
)

// Exchange is an exchange of our own: it invents orders for some symbols, sends what becomes of its books as IEX-TP and
// DEEP 1.0 on two lines, spoils them, and answers recovery requests. Its books are kept the simplest way there is, so
// that a handler's can be compared with them.
type Exchange struct {
	Interface string
	Lines     [2]netip.AddrPort
	Recovery  netip.AddrPort // the zero value: there is no recovery server, and what was sent is not kept
	Rate      int            // packets a second
	Duration  time.Duration
	Symbols   int
	Impair    Impairment // of Seed, Loss, Duplicate, Reorder, Burst and Recut; delays do not apply
	// Caught reports whether the receiver has dealt with everything before next. The exchange stays for recovery requests
	// until then, stay at most. It is called on Run's goroutine, and not without a recovery server.
	Caught func(next uint64) bool
	// Intercept, if set, is called before a packet is sent to a line, on Run's goroutine. If it returns true the packet is not sent: it was
	// lost, or Intercept has sent something itself.
	Intercept func(line int, packet []byte) bool

	truth  map[string]*[2]map[int64]uint32 // symbol → bids, offers → price → size
	names  []string
	rnd    *rand.Rand
	buf    []byte
	seq    uint64
	offset uint64
	report ExchangeReport
}

// ExchangeReport is what an exchange says of itself at the end.
type ExchangeReport struct {
	Session  uint32
	Messages uint64
	Packets  uint64
	Trades   uint64
	Volume   uint64
	Symbols  int    // that have a side
	Digest   string // SHA-256 over sorted lines symbol,bid_px,bid_qty,ask_px,ask_qty
	Sent     [2]uint64
	Dropped  [2]uint64
	Requests uint64
}

const (
	exchangeSession = 20_260_101
	mostMessages    = 5  // of one packet
	mostBurst       = 32 // packets at once: what a busy machine delayed must not overrun receivers' buffers
	stay            = 10 * time.Second
	beat            = 20 * time.Millisecond
)

// Run opens, trades for the duration, closes, and stays for recovery requests until Caught.
func (x *Exchange) Run(ctx context.Context) (ExchangeReport, error) {
	conn, err := Sender(x.Interface)
	if err != nil {
		return x.report, err
	}
	defer conn.Close() //nolint:errcheck // nothing is buffered
	d, err := newDialect(handler.DEEP)
	if err != nil {
		return x.report, err
	}
	store := newStore(d)
	var server *Server
	if x.Recovery.IsValid() {
		if server, err = serve(x.Recovery, store, Normal, nil); err != nil {
			return x.report, err
		}
		defer server.Close() //nolint:errcheck // no request is owed an answer
	}
	x.open()
	var spoilers [2]*spoiler
	for i := range spoilers {
		spoilers[i] = &spoiler{m: &x.Impair, line: i}
		if x.Impair.Recut[i] {
			own := *d
			spoilers[i].cut = &recutter{d: &own}
		}
	}
	var q []out
	send := func(o out) { q = append(q, o) }
	flush := func() error {
		for _, o := range q { // in order: nothing is delayed here
			if x.Intercept != nil && x.Intercept(o.line, o.b) {
				continue
			}
			if _, err := conn.WriteToUDPAddrPort(o.b, x.Lines[o.line]); err != nil {
				return fmt.Errorf("send to %v: %w", x.Lines[o.line], err)
			}
			x.report.Sent[o.line]++
		}
		q = q[:0]
		return nil
	}
	begin := time.Now()
	for time.Since(begin) < x.Duration && ctx.Err() == nil {
		due := uint64(time.Since(begin).Seconds() * float64(x.Rate))
		for n := 0; x.report.Packets < due && n < mostBurst; n++ {
			x.report.Packets++
			p := x.packet()
			if server != nil {
				store.Add(p)
			}
			for _, s := range spoilers {
				s.take(0, p, send)
			}
			if err := flush(); err != nil {
				return x.report, err
			}
		}
		time.Sleep(200 * time.Microsecond)
	}
	for _, s := range spoilers {
		s.flush(0, send)
	}
	if err := flush(); err != nil {
		return x.report, err
	}
	for end := time.Now().Add(stay); server != nil && !x.Caught(x.seq) && time.Now().Before(end); time.Sleep(beat) {
		for _, to := range x.Lines { // heartbeats reveal a lost tail
			if _, err := conn.WriteToUDPAddrPort(store.Heartbeat(), to); err != nil {
				return x.report, err
			}
		}
	}
	if server != nil {
		x.report.Requests = server.Requests.Load()
	}
	for i, s := range spoilers {
		x.report.Dropped[i] = s.Dropped
	}
	x.close()
	return x.report, nil
}

// open invents the symbols and the true books, with which the handler's books are compared in the end.
func (x *Exchange) open() {
	x.rnd = rand.New(rand.NewPCG(x.Impair.Seed, 77))
	x.truth = map[string]*[2]map[int64]uint32{}
	for i := range x.Symbols {
		name := fmt.Sprintf("%c%c%c", 'A'+i/26/26%26, 'A'+i/26%26, 'A'+i%26)
		x.names = append(x.names, name)
		x.truth[name] = &[2]map[int64]uint32{{}, {}}
	}
	x.seq = 1
	x.report.Session = exchangeSession
}

// packet invents a few events.
func (x *Exchange) packet() []byte {
	now := time.Now().UnixNano()
	n := 1 + x.rnd.IntN(mostMessages)
	b := iextp.AppendHeader(nil, iextp.Segment{Protocol: iextp.DEEP10, Channel: 1, Session: exchangeSession,
		Offset: x.offset, Seq: x.seq, SendTime: now})
	for i := range n {
		b = iextp.AppendMessage(b, x.event(now, i == n-1))
	}
	iextp.Finish(b, n)
	x.seq += uint64(n)
	x.offset += uint64(len(b) - iextp.HeaderLen)
	x.report.Messages += uint64(n)
	return b
}

// event is one change of a level, or a trade.
func (x *Exchange) event(now int64, last bool) []byte {
	i := x.rnd.IntN(len(x.names))
	name := x.names[i]
	x.buf = x.buf[:0]
	price := func(side int) int64 { // around a fixed price of each symbol, bids below and offers above
		base := int64(100_000 + 10_000*i)
		away := int64(100 * (1 + x.rnd.IntN(12)))
		return base + away*int64(2*side-1)
	}
	if x.rnd.IntN(20) == 0 {
		size := uint32(1 + x.rnd.IntN(500))
		x.report.Trades++
		x.report.Volume += uint64(size)
		t := deep.Trade{Time: now, Symbol: feed.SymbolOf(name), Size: size, Price: price(x.rnd.IntN(2)), ID: x.report.Trades}
		return t.Append(x.buf)
	}
	side := x.rnd.IntN(2)
	at := price(side)
	size := uint32(0)
	if x.rnd.IntN(3) > 0 {
		size = uint32(100 * (1 + x.rnd.IntN(50)))
		x.truth[name][side][at] = size
	} else {
		delete(x.truth[name][side], at)
	}
	l := deep.PriceLevel{Buy: side == 0, Complete: last || x.rnd.IntN(2) == 0, Time: now, Symbol: feed.SymbolOf(name), Size: size, Price: at}
	return l.Append(x.buf)
}

// close writes down the books.
func (x *Exchange) close() {
	var rows []string
	for name, sides := range x.truth {
		var best [2]int64
		for side, levels := range sides {
			for p := range levels {
				if best[side] == 0 || side == 0 && p > best[0] || side == 1 && p < best[1] {
					best[side] = p
				}
			}
		}
		if best[0] == 0 && best[1] == 0 {
			continue
		}
		rows = append(rows, fmt.Sprintf("%s,%d,%d,%d,%d\n", name, best[0], sides[0][best[0]], best[1], sides[1][best[1]]))
	}
	slices.Sort(rows)
	h := sha256.New()
	for _, r := range rows {
		_, _ = io.WriteString(h, r) // a hash takes everything
	}
	x.report.Symbols, x.report.Digest = len(rows), hex.EncodeToString(h.Sum(nil))
}
