// Package report shows what a feed handler did: files for programs, a text for people, and a view while it runs.
package report

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"

	"github.com/socketxtreme/socketxtreme/examples/feedhandler/handler"
	"github.com/socketxtreme/socketxtreme/feed"
)

// Names are the files to be written; an empty name is none.
type Names struct {
	Summary string // JSON
	Tops    string // best levels at the end, CSV
	Events  string // JSON lines
}

// Files writes the files that a run is asked for.
type Files struct {
	names  Names
	events *eventLog
}

// eventLog writes one JSON object a line.
type eventLog struct {
	mu   sync.Mutex
	file *os.File
	out  *bufio.Writer
	err  error
}

// Open creates the event log, if there is to be one.
func Open(names Names) (*Files, error) {
	f := &Files{names: names}
	if names.Events != "" {
		file, err := os.Create(names.Events)
		if err != nil {
			return nil, err
		}
		f.events = &eventLog{file: file, out: bufio.NewWriter(file)}
	}
	return f, nil
}

// Event is a line of the event log.
type Event struct {
	Time    int64  `json:"t_ns"`
	Channel string `json:"channel"`
	Kind    string `json:"kind"`
	Epoch   uint32 `json:"epoch"`
	From    string `json:"from,omitempty"`
	To      string `json:"to,omitempty"`
	Seq     uint64 `json:"seq"`
	End     uint64 `json:"end,omitempty"`
	Line    *uint8 `json:"line,omitempty"`
	Cause   string `json:"cause"`
}

// write is a channel's OnEvent. Events are rare: this is not on the path of a packet that is in order.
func (l *eventLog) write(c *handler.Channel, e *feed.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := Event{Time: e.Time, Channel: c.Name(), Kind: e.Kind.String(), Epoch: e.Epoch, Seq: e.Seq, End: e.End,
		Cause: e.Cause.String()}
	switch e.Kind {
	case feed.StateChanged:
		line.From, line.To = e.From.String(), e.To.String()
	case feed.LineAlive, feed.LineDead:
		line.Line = &e.Line
	}
	b, err := json.Marshal(line)
	if err == nil {
		_, err = l.out.Write(append(b, '\n'))
	}
	l.err = errors.Join(l.err, err)
}

// OnEvent is the channel's OnEvent that writes the event log; nil without one.
func (f *Files) OnEvent() func(*handler.Channel, *feed.Event) {
	if f.events == nil {
		return nil
	}
	return f.events.write
}

// Finish writes the files.
func (f *Files) Finish(s *handler.Summary, channels []*handler.Channel) error {
	var failed []error
	if f.names.Summary != "" {
		failed = append(failed, toFile(f.names.Summary, s.WriteJSON))
	}
	if f.names.Tops != "" {
		failed = append(failed, toFile(f.names.Tops, func(w io.Writer) error { return handler.WriteTops(w, channels...) }))
	}
	if f.events != nil {
		failed = append(failed, f.events.err, f.events.out.Flush(), f.events.file.Close())
	}
	return errors.Join(failed...)
}

// toFile writes a file by a function, and closes it.
func toFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
