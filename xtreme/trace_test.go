package xtreme_test

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// logged is a world whose engine's own log has a level; lines are those of its log since they were read last.
func logged(t *testing.T, level conf.LogLevel) (w *world, lines func() []string) {
	path := filepath.Join(t.TempDir(), "log")
	w = worldWith(t, func(s *conf.Settings) { s.LogLevel, s.LogFile = level, path })
	seen := 0
	return w, func() []string {
		text, err := os.ReadFile(path)
		w.NoError(err)
		list := strings.Split(strings.TrimSuffix(string(text[seen:]), "\n"), "\n")
		seen = len(text)
		return list
	}
}

// count is how many lines match.
func count(lines []string, pattern string) (n int) {
	for _, line := range lines {
		if regexp.MustCompile(pattern).MatchString(line) {
			n++
		}
	}
	return n
}

// one fails unless exactly one of the lines matches.
func (w *world) one(lines []string, pattern string) {
	w.t.Helper()
	w.Equal(1, count(lines, pattern), "%s in\n%s", pattern, strings.Join(lines, "\n"))
}

// At debug each call of a socket is a line: with what it was given, the socket's id, addresses and path, and its error.
func TestSocketCallsAtDebug(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w, lines := logged(t, conf.LogDebug)
		l := w.listen(xtreme.ListenConfig{NoDelay: xtreme.On})
		id, at := strconv.Itoa(l.ID()), l.LocalAddr().String()
		list := lines()
		w.one(list, `SX DEBUG: socket call poller=test call=ListenTCP given=127\.0\.0\.1:0 socket=`+id+` protocol=tcp local=`+at+` path="?kernel `+string(kind))
		w.one(list, `call=bind given=127\.0\.0\.1:0 socket=`+id+` protocol=tcp local=`+at+`$`)
		w.one(list, `call=listen given=\d+ socket=`+id+` protocol=tcp local=`+at+` path=`)
		w.one(list, `call="set no delay" given=1 socket=`+id)

		c, err := w.poller.DialTCP(l.LocalAddr(), xtreme.DialConfig{})
		w.NoError(err)
		list = lines()
		w.one(list, `call=connect given=`+at+` socket=`+strconv.Itoa(c.ID())+` protocol=tcp local=\S+ remote=`+at+` path=`)
		w.one(list, `call=DialTCP given=`+at+` socket=`+strconv.Itoa(c.ID())+` .*remote=`+at)

		w.Error(c.SetTTL(900))
		w.one(lines(), `call="set ttl" given=900 socket=`+strconv.Itoa(c.ID())+` .*error="ring: ttl: value 900: invalid argument"`)
		s := w.accept(l)
		for _, x := range []*xtreme.Socket{c, s, l} {
			w.close(x)
			w.one(lines(), `call=close socket=`+strconv.Itoa(x.ID())+` `)
		}
		w.ErrorIs(l.Close(), xtreme.ErrClosed)
		w.one(lines(), `call=close socket=`+id+` .*error="ring: close: ring: closed"`)
		_, err = w.poller.ListenTCP(netip.MustParseAddrPort("192.0.2.1:5"), xtreme.ListenConfig{})
		w.Error(err)
		w.one(lines(), `call=ListenTCP given=192\.0\.2\.1:5 error=`)
	})
}

// The calls of datagram and of unix-domain sockets.
func TestOtherSocketCallsAtDebug(t *testing.T) {
	w, lines := logged(t, conf.LogDebug)
	group := netip.MustParseAddr("239.7.7.9")
	u, err := w.poller.NewUDP(xtreme.IPv4, xtreme.UDPSocketConfig{})
	w.NoError(err)
	id := strconv.Itoa(u.ID())
	w.one(lines(), `call=NewUDP given="without an address" socket=`+id+` protocol=udp$`)
	w.NoError(u.SetMulticastTTL(3))
	w.Error(u.SetMulticastTTL(300))
	w.NoError(u.JoinGroup(group, "lo", netip.Addr{}))
	w.NoError(u.LeaveGroup(group, "lo", netip.Addr{}))
	w.NoError(u.SetPacing(xtreme.PacingRate{Rate: 1 << 20}))
	w.NoError(u.SetReceiveMode(xtreme.ModeQueue, nil))
	w.Error(u.SetLinger(0))
	w.NoError(u.Abort())
	list := lines()
	for _, want := range []string{`call="set multicast ttl" given=3 `, `call="set multicast ttl" given=300 .*error=`, `call="join group" given="239.7.7.9 on lo" `,
		`call="leave group" given="239.7.7.9 on lo" `, `call="set pacing" given=.*1048576`, `call="set receive mode" given=queue `,
		`call="set linger" given=0s .*error=`, `call=(close|abort) socket=` + id + ` `} {
		w.one(list, want)
	}
	name := "@" + t.Name()
	l, err := w.poller.ListenUnix(name, xtreme.UnixListenConfig{})
	w.NoError(err)
	c, err := w.poller.DialUnix(name, xtreme.UnixDialConfig{})
	w.NoError(err)
	list = lines()
	w.one(list, `call=ListenUnix given=`+name+` socket=`+strconv.Itoa(l.ID())+` protocol=unix local=`+name+` path=`)
	w.one(list, `call="bind unix" given=`+name)
	w.one(list, `call="connect unix" given=`+name)
	w.one(list, `call=DialUnix given=`+name+` socket=`+strconv.Itoa(c.ID())+` protocol=unix remote=`+name)
	_, err = w.poller.Adopt(0x3fffff, xtreme.AdoptConfig{})
	w.Error(err)
	w.one(lines(), `call=Adopt given=4194303 error=`)
}

// A call by another goroutine than the owner is a line with the socket's id alone, and no race.
func TestRefusedCallsAtDebug(t *testing.T) {
	w, lines := logged(t, conf.LogDebug)
	u := w.udp(loopback)
	w.poll()
	lines()
	var wait sync.WaitGroup
	var refused error
	wait.Go(func() { refused = u.Close() })
	for range 100 {
		w.poll()
	}
	wait.Wait()
	w.ErrorIs(refused, ring.ErrOwner)
	w.one(lines(), `call=close socket=`+strconv.Itoa(u.ID())+` error="ring: close: `)
}

// At info no call is a line, and at debug no packet.
func TestLevelsAbove(t *testing.T) {
	for level, calls := range map[conf.LogLevel]bool{conf.LogInfo: false, conf.LogDetails: false, conf.LogDebug: true} {
		w, lines := logged(t, level)
		u := w.udp(loopback)
		w.write(w.peer(u.LocalAddr()), "hello")
		w.Equal("hello", w.text(u))
		list := lines()
		w.Equal(calls, count(list, "socket call") > 0, level)
		w.Zero(count(list, "completion|length="), "%s: %s", level, list)
	}
}

// At fine each packet that is received or sent is a line, at finer with its first bytes.
func TestPacketsAtFine(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for level, bytes := range map[conf.LogLevel]string{conf.LogFine: "", conf.LogFiner: ` bytes=68656c6c6f`, conf.LogAll: ` bytes=68656c6c6f`} {
			w, lines := logged(t, level)
			head := " SX FINE: "
			if bytes != "" {
				head = " SX FINER: "
			}
			u := w.udp(loopback)
			id, peer := strconv.Itoa(u.ID()), w.peer(u.LocalAddr())
			from := peer.LocalAddr().(interface{ AddrPort() netip.AddrPort }).AddrPort()
			w.write(peer, "hello")
			w.Equal("hello", w.text(u))
			w.one(lines(), head+`completion poller=test socket=`+id+` events=PACKET source=`+from.String()+` length=5`+bytes+`$`)

			_, err := u.SendTo([]byte("hello"), from)
			w.NoError(err)
			w.one(lines(), head+`send poller=test socket=`+id+` to=`+from.String()+` length=5`+bytes+`$`)
			_, err = u.SendVector([][]byte{[]byte("he"), nil, []byte("llo")}, from)
			w.NoError(err)
			w.one(lines(), head+`send vector poller=test socket=`+id+` to=`+from.String()+` length=5`+bytes+`$`)
			p, err := w.poller.Pool().Alloc(5)
			w.NoError(err)
			copy(p.Room(), "hello")
			w.NoError(u.SendPacket(p, from, 77))
			w.Equal(uint64(77), w.event(u, xtreme.EventSent).Token)
			list := lines()
			w.one(list, head+`send packet poller=test socket=`+id+` to=`+from.String()+` length=5 token=77`+bytes+`$`)
			w.one(list, ` SX FINE: completion poller=test socket=`+id+` events=SENT length=0 token=77$`)
			_, err = u.SendTo(make([]byte, 70_000), from)
			w.Error(err)
			w.one(lines(), `send poller=test socket=`+id+` to=`+from.String()+` length=0 error="ring: send .*message too long"`)

			l := w.listen()
			c, client := w.pair(l)
			w.write(client, "hello")
			w.Equal("hello", w.text(c))
			list = lines()
			w.one(list, ` SX FINE: completion poller=test socket=`+strconv.Itoa(c.ID())+` events=NEW_CONNECTION(\|PACKET)? listener=`+strconv.Itoa(l.ID())+` source=`)
			w.one(list, head+`completion poller=test socket=`+strconv.Itoa(c.ID())+` events=PACKET .*length=5`+bytes+`$`)
			w.NoError(client.Close())
			w.event(c, xtreme.EventIn|xtreme.EventRdHup)
			w.one(lines(), ` SX FINE: completion poller=test socket=`+strconv.Itoa(c.ID())+` events=IN\|RDHUP `)
			for _, s := range []*xtreme.Socket{c, l, u} {
				w.close(s)
			}
			w.one(lines(), `completion poller=test socket=`+id+` events=CLOSED `)
		}
	})
}

// Packets that no completion of Poll brings: those that a callback drops or holds, and those that are pulled.
func TestPacketsWithoutCompletionsAtFine(t *testing.T) {
	w, lines := logged(t, conf.LogFiner)
	verdict := xtreme.Drop
	u, err := w.poller.NewUDP(xtreme.IPv4, xtreme.UDPSocketConfig{})
	w.NoError(err)
	seen := 0
	w.NoError(u.SetReceiveMode(xtreme.ModeCallback, func(_ *xtreme.Socket, c *xtreme.Completion) ring.Verdict {
		if seen++; verdict == xtreme.Hold {
			w.NoError(c.Packet.Release())
		}
		return verdict
	}))
	w.NoError(u.Bind(loopback))
	peer := w.peer(u.LocalAddr())
	arrive := func(v ring.Verdict) {
		verdict = v
		before := seen
		w.write(peer, "hello")
		w.until("the callback was called", func() bool { return seen > before })
		w.poll()
	}
	arrive(xtreme.Drop)
	list := lines()
	w.one(list, ` SX FINER: callback drop poller=test socket=`+strconv.Itoa(u.ID())+` events=PACKET source=`+peer.LocalAddr().String()+` length=5 bytes=68656c6c6f$`)
	w.Zero(count(list, "events=IN "))
	arrive(xtreme.Hold)
	w.one(lines(), ` SX FINER: callback hold poller=test .* length=5 bytes=68656c6c6f$`)
	arrive(xtreme.Keep)
	var dst [4]xtreme.Completion
	n, err := u.Receive(dst[:])
	w.NoError(err)
	w.Equal(1, n)
	w.NoError(dst[0].Packet.Release())
	list = lines()
	w.Zero(count(list, "callback (drop|hold)"), list)
	w.one(list, ` SX FINER: receive poller=test .* events=PACKET .* length=5 bytes=68656c6c6f$`)
	arrive(xtreme.Keep)
	b := make([]byte, 4)
	n, _, err = u.Read(b)
	w.ErrorIs(err, xtreme.ErrTruncated)
	w.Equal("hell", string(b[:n]))
	w.one(lines(), ` SX FINER: read poller=test socket=`+strconv.Itoa(u.ID())+` events=PACKET source=`+peer.LocalAddr().String()+` length=4 error=.* bytes=68656c6c$`)
	_, _, err = u.Read(b)
	w.ErrorIs(err, ring.ErrNothing)
	w.Zero(count(lines(), "read poller"), "nothing was read")
}

// A log that sends its lines by a socket of the same poller ends: what it sends is not logged again.
func TestALogThatSends(t *testing.T) {
	h := &sendingHandler{}
	h.level.Set(conf.LogFine.Level())
	w := worldWith(t, func(s *conf.Settings) { s.Logger = slog.New(h) })
	u := w.udp(loopback)
	peer := w.peer(u.LocalAddr())
	h.send = func() {
		_, err := u.SendTo([]byte("a line"), peer.LocalAddr().(interface{ AddrPort() netip.AddrPort }).AddrPort())
		w.NoError(err)
	}
	w.write(peer, "hello")
	w.Equal("hello", w.text(u))
	w.Positive(h.lines)
	w.Less(h.lines, 5)
	h.send = nil
}

// The level of a logger that the program gives is looked at again and again, also where no call of a socket is made.
func TestLevelOfTheProgramsLoggerChanges(t *testing.T) {
	h := &sendingHandler{}
	h.level.Set(slog.LevelInfo)
	w := worldWith(t, func(s *conf.Settings) { s.Logger = slog.New(h) })
	u := w.udp(loopback)
	peer := w.peer(u.LocalAddr())
	arrives := func() int {
		before := h.lines
		w.write(peer, "hello")
		w.Equal("hello", w.text(u))
		return h.lines - before
	}
	w.Zero(arrives())
	h.level.Set(conf.LogFine.Level())
	w.until("packets are logged", func() bool { return arrives() > 0 })
	h.level.Set(slog.LevelInfo)
	w.until("packets are not logged any more", func() bool { return arrives() == 0 })
}

// sendingHandler is a handler of package slog that counts lines about packets, and calls send for each.
type sendingHandler struct {
	level slog.LevelVar
	lines int
	send  func()
}

func (h *sendingHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level.Level() }
func (h *sendingHandler) WithAttrs([]slog.Attr) slog.Handler           { return h }
func (h *sendingHandler) WithGroup(string) slog.Handler                { return h }
func (h *sendingHandler) Handle(_ context.Context, r slog.Record) error {
	if r.Level > conf.LogFine.Level() {
		return nil
	}
	h.lines++
	if h.send != nil {
		h.send()
	}
	return nil
}

// Sockets of an offloaded ring: their calls with the path over the link, and their packets on both ways.
func TestPacketsOfOffloadedSocketsAtFine(t *testing.T) {
	w := newCabled(t)
	path := filepath.Join(t.TempDir(), "log")
	s := conf.Default()
	s.Ring, s.SmallBuffers, s.LargeBuffers, s.LogLevel, s.LogFile = conf.RingOffload, 1024, 16, conf.LogFiner, path
	e, err := xtreme.New(s)
	w.NoError(err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	w.engine = e
	w.poller = w.newPoller("offloaded")
	u := w.udp(w.at(0))
	answers(w.world, u, w.net.Dial(u.LocalAddr()))
	w.close(u)
	text, err := os.ReadFile(path)
	w.NoError(err)
	lines, id := strings.Split(string(text), "\n"), strconv.Itoa(u.ID())
	w.one(lines, ` SX DEBUG: socket call poller=offloaded call=OpenUDP .* socket=`+id+` .* path="bypass xdp v0/0 `)
	w.one(lines, ` SX FINER: completion poller=offloaded socket=`+id+` events=PACKET source=10\.0\.0\.2:\d+ length=\d+ bytes=746f20`) // "to "
	w.one(lines, ` SX FINER: send poller=offloaded socket=`+id+` to=10\.0\.0\.2:\d+ length=6 bytes=616e73776572$`)
	w.one(lines, ` SX FINE: completion poller=offloaded socket=`+id+` events=CLOSED `)
}
