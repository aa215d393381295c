package xtreme

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
)

// tracer is the ring.Tracer of a poller's sets. In the engine's log each call that makes, configures or closes a socket is a line at debug; each
// completion, other packet and send is one at fine, and at finer has the packet's first bytes.
type tracer struct {
	log    *slog.Logger // the engine's
	poller string       // the poller's name
	trace  *ring.Trace
}

func newTracer(log *slog.Logger, poller string) *tracer {
	t := &tracer{log: log, poller: poller}
	t.trace = ring.NewTrace(t)
	t.refresh()
	return t
}

// refresh brings the level of packets up to date with that of the log, which xtstat or the program may have changed. It is called with each
// call of a socket, and with each request of the statistics (monitor.Refresh), some hundred times a second. Any goroutine.
func (t *tracer) refresh() {
	level := ring.TraceOff
	if t.logs(conf.LogFine) {
		level = ring.TracePackets
		if t.logs(conf.LogFiner) {
			level = ring.TraceBytes
		}
	}
	t.trace.SetLevel(level)
}

// logs reports whether the log has lines of a level.
func (t *tracer) logs(l conf.LogLevel) bool { return t.log.Enabled(context.Background(), l.Level()) }

// TracesCalls is ring.Tracer's.
func (t *tracer) TracesCalls() bool {
	t.refresh()
	return t.logs(conf.LogDebug)
}

// Call is ring.Tracer's.
func (t *tracer) Call(s *ring.Socket, name, given string, err error) {
	t.write(conf.LogDebug, "socket call", t.callAttrs(s, name, given, err))
}

// made logs a call of the poller that makes a socket: s, or nil with its error.
func (t *tracer) made(call, given string, s *ring.Socket, err error) {
	if t.TracesCalls() {
		t.write(conf.LogDebug, "socket call", t.callAttrs(s, call, given, err))
	}
}

// callAttrs is what a line says of a call. Addresses and path are the owner's to read.
func (t *tracer) callAttrs(s *ring.Socket, name, given string, err error) []slog.Attr {
	list := []slog.Attr{slog.String("poller", t.poller), slog.String("call", name)}
	if given != "" {
		list = append(list, slog.String("given", given))
	}
	if s != nil {
		list = append(list, slog.Int("socket", s.ID()))
	}
	if s != nil && !errors.Is(err, ring.ErrOwner) {
		list = append(list, slog.String("protocol", protocolName(s)))
		for _, x := range []struct{ name, text string }{{"local", localText(s)}, {"remote", remoteText(s)}} {
			if x.text != "" {
				list = append(list, slog.String(x.name, x.text))
			}
		}
		if s.Check() == nil {
			list = append(list, slog.String("path", s.Path().String()))
		}
	}
	if err != nil {
		list = append(list, slog.String("error", err.Error()))
	}
	return list
}

// localText and remoteText are the socket's addresses or names; empty where it has none.
func localText(s *ring.Socket) string {
	if a := s.LocalAddr(); a.IsValid() {
		return a.String()
	}
	return s.LocalUnix()
}

func remoteText(s *ring.Socket) string {
	if a := s.RemoteAddr(); a.IsValid() {
		return a.String()
	}
	return s.RemoteUnix()
}

// Packet is ring.Tracer's.
func (t *tracer) Packet(x *ring.Traced) {
	list := []slog.Attr{slog.String("poller", t.poller), slog.Int("socket", x.Socket.ID())}
	peer := "to"
	if x.Events != 0 {
		peer = "source"
		list = append(list, slog.String("events", x.Events.String()))
	}
	if x.Listener != nil {
		list = append(list, slog.Int("listener", x.Listener.ID()))
	}
	if x.Peer.IsValid() {
		list = append(list, slog.String(peer, x.Peer.String()))
	}
	list = append(list, slog.Int("length", x.Length))
	if x.Token != 0 {
		list = append(list, slog.Uint64("token", x.Token))
	}
	if x.Err != nil {
		list = append(list, slog.String("error", x.Err.Error()))
	}
	level := conf.LogFine
	if len(x.Bytes) > 0 {
		level = conf.LogFiner
		list = append(list, slog.String("bytes", hex.EncodeToString(x.Bytes)))
	}
	t.write(level, x.What, list)
}

func (t *tracer) write(l conf.LogLevel, message string, list []slog.Attr) {
	t.log.LogAttrs(context.Background(), l.Level(), message, list...)
}
