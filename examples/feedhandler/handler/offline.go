package handler

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/socketxtreme/socketxtreme/examples/feedhandler/capture"
	"github.com/socketxtreme/socketxtreme/feed/iextp"
	"github.com/socketxtreme/socketxtreme/feed/moldudp64"
)

// lookAhead is how many records are sorted by time: merged ports are out of order by a few records.
const lookAhead = 32

// Offline reads a capture file through the same channels that live packets go through.
type Offline struct {
	Channels []*Channel
	Records  uint64 // handled so far
	// OnRecord, if set, is called after each record: for checkpoints.
	OnRecord func(n uint64)

	path     string
	routes   []route
	unrouted uint64
	reader   *capture.Reader
	binary   bool
	now      int64
}

// route says which line of which channel a destination is.
type route struct {
	dst     netip.AddrPort
	channel int
	line    uint8
}

// OpenOffline looks a capture file through once for the channels and lines in it: destinations with the same kind of
// packets and the same session are lines of one channel; MDP 3.0 has no session, there the ports of A and B differ by
// 1,000. Every channel is made from c; its Proto, if not Auto, is the only one taken.
func OpenOffline(path string, c Config) (*Offline, error) {
	o := &Offline{path: path}
	if c.Proto == ITCH || c.Proto == Auto && filepath.Ext(path) == ".bin" {
		c.Proto, c.Name = ITCH, filepath.Base(path)
		ch, err := NewChannel(c)
		o.Channels, o.binary = []*Channel{ch}, true
		return o, err
	}
	found, err := discover(path, c.Proto)
	if err != nil {
		return nil, err
	}
	for i, f := range found {
		k := c
		k.Proto, k.Lines = f.proto, f.lines
		if k.Feed.CopyBytes == 0 {
			k.Feed.CopyBytes = 2048
		}
		if k.Feed.MaxJump == 0 {
			k.Feed.MaxJump = 1 << 63 // a capture may be pieces of a day
		}
		k.Name = f.lines[0].String()
		if c.Name != "" {
			k.Name = c.Name + " " + k.Name
		}
		if len(found) > 2 && k.Symbols == 0 { // many small channels: books of a size that fits
			k.Symbols, k.Levels, k.Orders = 1<<10, 1<<14, 1<<16
		}
		ch, err := NewChannel(k)
		if err != nil {
			return nil, err
		}
		o.Channels = append(o.Channels, ch)
		for l, dst := range f.lines {
			o.routes = append(o.routes, route{dst, i, uint8(l)})
		}
	}
	return o, nil
}

// found is a channel of a capture.
type found struct {
	proto Proto
	key   string
	lines []netip.AddrPort
}

// discover reads a capture for its channels.
func discover(path string, want Proto) (all []found, err error) {
	r, err := capture.Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close() //nolint:errcheck // only read from
	known := map[netip.AddrPort]bool{}
	var rec capture.Record
	seen := 0
	for {
		err := r.Next(&rec)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if rec.Kind != capture.UDP || known[rec.Dst] {
			continue
		}
		seen++
		p := Recognize(rec.Payload)
		if p == Auto || want != Auto && p != want {
			continue
		}
		known[rec.Dst] = true
		key := channelKey(p, rec.Payload, rec.Dst)
		at := -1
		for i, f := range all {
			if f.proto == p && f.key == key && len(f.lines) < 2 {
				at = i
			}
		}
		if at < 0 {
			all = append(all, found{proto: p, key: key})
			at = len(all) - 1
		}
		f := &all[at]
		f.lines = append(f.lines, rec.Dst)
		if len(f.lines) == 2 && f.lines[1].Port() < f.lines[0].Port() {
			f.lines[0], f.lines[1] = f.lines[1], f.lines[0] // A has the lower port
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no packet of a known protocol (%s) in %d records, %d of them UDP with an unknown "+
			"destination or content",
			path, strings.Join(protoNames[1:6], ", "), r.Records, seen)
	}
	return all, nil
}

// channelKey is equal for the lines of one channel.
func channelKey(p Proto, b []byte, dst netip.AddrPort) string {
	switch p {
	case DEEP, TOPS:
		h, _, _ := iextp.Parse(b) // it was recognized
		return fmt.Sprint(h.Channel(), h.Session())
	case MoldUDP64:
		h, _, _ := moldudp64.Parse(b)
		return h.Session()
	case PITCH:
		return dst.String() // real time and gap responses have the same unit
	}
	return fmt.Sprint(dst.Port() % 1000)
}

// Run reads the file to its end. The error of a file that was cut says where (*capture.FileError, io.ErrUnexpectedEOF); what came before has
// been handled then, and Summary reports it.
func (o *Offline) Run() error {
	if o.binary {
		f, err := os.Open(o.path)
		if err != nil {
			return err
		}
		defer f.Close() //nolint:errcheck // only read from
		err = capture.BinaryFile(f, func(m []byte) error {
			o.Records++
			o.Channels[0].Message(m)
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", o.path, err)
		}
		return nil
	}
	r, err := capture.Open(o.path)
	if err != nil {
		return err
	}
	defer r.Close() //nolint:errcheck // only read from
	o.reader = r
	next := r.Next
	if len(o.routes) > len(o.Channels) { // lines of one channel may come from two merged ports
		next = capture.NewSorted(r, lookAhead).Next
	}
	var rec capture.Record
	for {
		switch err := next(&rec); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			for _, c := range o.Channels {
				c.Finish(o.now)
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case err != nil:
			return err
		}
		o.handle(&rec)
		o.Records++
		if o.OnRecord != nil {
			o.OnRecord(o.Records)
		}
	}
}

// handle gives one record of a capture to the channel of its destination address; a record that no channel is for is counted.
func (o *Offline) handle(rec *capture.Record) {
	if rec.Kind == capture.Other {
		return
	}
	for i := range o.routes {
		if t := &o.routes[i]; t.dst == rec.Dst {
			c := o.Channels[t.channel]
			if rec.Kind == capture.Truncated {
				c.Truncated(t.line)
				return
			}
			o.now = max(o.now, rec.Time)
			c.Input(t.line, rec.Payload, rec.Time, Ref{})
			return
		}
	}
	o.unrouted++
}

// Summary is the result; after Run.
func (o *Offline) Summary() Summary {
	s := Summarize(o.Channels, Clock{Source: "capture", OffsetNs: o.Channels[0].cfg.ClockOffset})
	s.Capture = &CaptureSummary{File: filepath.Base(o.path), Records: o.Records, Unrouted: o.unrouted}
	if o.reader != nil {
		s.Capture.NonUDP, s.Capture.Truncated = o.reader.Others, o.reader.TruncatedRecords
	}
	return s
}
