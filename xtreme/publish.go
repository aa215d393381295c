package xtreme

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/hoststat"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/stats"
)

// publication is the statistics file of this process: engines with the same settings for it share one. The last one closes it.
type publication struct {
	key     string
	users   int // engines
	file    *stats.File
	control *stats.Control
	host    *hoststat.Reader // nil: it could not be opened
	links   *hoststat.Links  // likewise

	ended chan struct{} // closed when the control socket is about to be

	mu      sync.Mutex
	rings   map[*ring.Ring]*monitor // open ones
	engines []*Engine

	monitors map[*monitor]struct{}
	process  processTime // used by the statistics' goroutine alone

	gapBudgets gapBudgets // guarded by mu

	reverts map[*conf.Log]*logRevert // of changes for a time, under way
}

var publications struct {
	sync.Mutex
	byKey map[string]*publication
}

// publish returns the publication for an engine's settings: the one that engines with equal settings have made, or a new one with its file and
// control socket. nil: the settings turn it off, or the file cannot be made, which is a warning in the log and no error.
func (e *Engine) publish() *publication {
	s := &e.settings
	directory := s.StatsDirectory
	switch directory {
	case "":
		return nil
	case conf.StatsDirectoryAuto:
		directory = stats.DefaultDirectory()
	}
	publications.Lock()
	defer publications.Unlock()
	key := fmt.Sprintf("%s\x00%s\x00%d", directory, s.StatsGroup, s.StatsSockets)
	p := publications.byKey[key]
	if p == nil {
		file, err := stats.Create(stats.Config{Directory: directory, Group: s.StatsGroup, Sockets: s.StatsSockets, Control: true})
		if err != nil {
			e.log.Warn("no statistics are published for xtstat (VMA_STATS_SHMEM_DIR, SX_STATS_GROUP)", "error", err)
			return nil
		}
		p = &publication{key: key, file: file, rings: map[*ring.Ring]*monitor{}, ended: make(chan struct{})}
		p.control, err = file.Serve(map[string]stats.Handler{"dump": p.dump, "log": p.setLog, "capture": p.capture, "settings": p.writeSettings,
			"goroutines": p.writeGoroutines}, func(err error) {
			p.warn("a request at the control socket of the statistics was refused", "error", err)
		})
		if err != nil {
			e.log.Warn("the statistics have no control socket: xtstat cannot zero, dump and set the log level", "error", err)
		}
		p.openHost(e.log.Logger)
		file.OnTick(p.tick)
		if publications.byKey == nil {
			publications.byKey = map[string]*publication{}
		}
		publications.byKey[key] = p
	}
	p.users++
	p.mu.Lock()
	p.engines = append(p.engines, e)
	p.mu.Unlock()
	return p
}

// warn writes a warning of what all engines share into the log of one that is open: the oldest. An engine leaves the list before it closes its
// log: if it has left meanwhile, the line may be lost, and the next one gets it.
func (p *publication) warn(message string, args ...any) {
	oldest := func() (e *Engine) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.engines) > 0 {
			e = p.engines[0]
		}
		return e
	}
	for e := oldest(); e != nil; { // without the lock, because a log may be a pipe that is read slowly
		e.log.Warn(message, args...)
		next := oldest()
		if next == e {
			return
		}
		e = next
	}
}

// openHost opens what the kernel counts, in the network namespace of the calling thread: that of the first engine that publishes.
func (p *publication) openHost(log *slog.Logger) {
	var err, err2 error
	p.host, err = hoststat.Open()
	p.links, err2 = hoststat.OpenLinks()
	if err = errors.Join(err, err2); err != nil {
		log.Warn("the statistics have no counters of the kernel, or no changes of interfaces: xtstat why knows less", "error", err)
	}
}

// closeHost closes what openHost has opened, when the file's goroutine has ended.
func (p *publication) closeHost() (err error) {
	if p.host != nil {
		err = p.host.Close()
	}
	if p.links != nil {
		err = errors.Join(err, p.links.Close())
	}
	return err
}

// readHost notes changes of interfaces in the journal, and once a second stores what the kernel counts.
func (p *publication) readHost(second bool) {
	if p.links != nil {
		p.links.Changes(p.noteLink)
	}
	if p.host != nil && second {
		p.file.BeginHost()
		for _, c := range p.host.Read() {
			p.file.SetHost(c.Name, c.Value)
		}
	}
}

// linkCodes are the journal's codes of what hoststat tells of interfaces.
var linkCodes = [hoststat.NumLinkChanges]string{hoststat.LinkCame: stats.CodeCame, hoststat.LinkDeleted: stats.CodeDeleted,
	hoststat.LinkRenamed: stats.CodeRenamed, hoststat.LinkDown: stats.CodeDown, hoststat.LinkUp: stats.CodeUp,
	hoststat.LinkCarrierLost: stats.CodeCarrierLost, hoststat.LinkCarrierBack: stats.CodeCarrierBack, hoststat.LinkProgramOn: stats.CodeProgramOn,
	hoststat.LinkProgramOff: stats.CodeProgramOff, hoststat.LinkMTU: stats.CodeMTU, hoststat.LinkMissed: stats.CodeMissed}

func (p *publication) noteLink(c hoststat.LinkChange) {
	p.file.Write(&stats.JournalEntry{Kind: stats.EventLink, Count: 1, Name: c.Interface, Code: linkCodes[c.What], Text: c.Text})
}

// NoteKind is the kind of event that Engine.Note writes.
type NoteKind uint8

// The kinds of notes.
const (
	NoteOther    NoteKind = iota
	NoteFeedGap           // messages of a feed are missing: line and range of sequence numbers
	NoteRecovery          // what was missing came
)

// Note writes an event into the journal that xtstat shows: count says how often or how much, text what happened, in a line. It takes no lock and
// does not allocate; without published statistics it does nothing. Any goroutine.
func (e *Engine) Note(kind NoteKind, count uint64, text string) {
	e.recorder.Note(text, kind == NoteFeedGap)
	if e.stats == nil {
		return
	}
	as := stats.EventNote
	switch kind {
	case NoteFeedGap:
		as = stats.EventFeedGap
	case NoteRecovery:
		as = stats.EventRecovery
	}
	e.stats.file.Note(as, nil, count, text)
}

// FeedGap is messages of a feed that no line brought in time.
type FeedGap struct {
	Feed     string // its name, as PublishFeed has it
	Messages uint64 // how many are missing
	Text     string // which, and on which lines, for people
	Before   int64  // when the newest packet in front of them arrived, wall-clock nanoseconds; 0: not known
	Behind   int64  // when the first packet behind them arrived; 0: now
	Took     int64  // how long as many messages took in front of them, ns: a sender that was silent meanwhile lost for so long; 0: not known
}

// NoteGap is Note of NoteFeedGap for a program that knows when the messages were lost: "xtstat why" tells when that began and ended.
func (e *Engine) NoteGap(g *FeedGap) {
	e.recorder.Note(g.Text, true)
	if e.stats == nil {
		return
	}
	x := stats.JournalEntry{Kind: stats.EventFeedGap, Count: g.Messages, Name: g.Feed, Text: g.Text, Earliest: g.Before, End: g.Behind}
	if g.Before != 0 && g.Behind != 0 && g.Took != 0 {
		x.Latest = max(g.Before, g.Behind-g.Took)
	}
	e.stats.file.Write(&x)
}

// close removes an engine from the publication. The last engine closes the control socket and the file.
func (p *publication) close(e *Engine) error {
	if p == nil {
		return nil
	}
	publications.Lock()
	defer publications.Unlock()
	p.mu.Lock()
	for i, x := range p.engines {
		if x == e {
			p.engines = append(p.engines[:i:i], p.engines[i+1:]...)
			break
		}
	}
	p.mu.Unlock()
	if p.users--; p.users > 0 {
		return nil
	}
	delete(publications.byKey, p.key)
	var err error
	close(p.ended)
	if p.control != nil {
		err = p.control.Close()
	}
	return errors.Join(err, p.file.Close(), p.closeHost())
}

// tick asks the owners of all rings to store the counters that they store on request only (ring.Monitor's Refresh), and reads what the kernel
// counts. second: with the drivers' counts, and the states of buffers. The sampler of the file calls it.
func (p *publication) tick(second bool) {
	p.nameGaps()
	p.requestRefresh(second)
	if second {
		p.sampleBuffers()
	}
	p.readHost(second)
}

// requestRefresh asks the owner of each ring to bring its counts up to date with its next Poll; with second, those of the drivers too.
func (p *publication) requestRefresh(second bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for r, m := range p.rings {
		if second {
			m.second.Store(true)
		}
		ring.RequestRefresh(r)
	}
}

// sampleBuffers stores the states of all pollers' buffers.
func (p *publication) sampleBuffers() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for m := range p.monitors {
		m.loop.SampleBuffers()
	}
}

// dumpRequest says which sockets are dumped: by id, 0 for all.
type dumpRequest struct {
	Socket int    `json:"socket"`
	Level  string `json:"level"`
}

// dump is the handler of the request "dump": it writes what xtstat's view 3 prints of the sockets into the engines' logs, and to the peer.
func (p *publication) dump(with json.RawMessage, w io.Writer) error {
	q := dumpRequest{Level: string(conf.LogInfo)}
	if err := json.Unmarshal(with, &q); err != nil {
		return err
	}
	level, err := conf.ParseLogLevel(q.Level)
	if err != nil {
		return err
	}
	r, err := stats.Open(p.file.Path())
	if err != nil {
		return err
	}
	defer r.Close()
	rings := map[int]*stats.View{}
	for _, v := range r.Blocks(stats.Rings) {
		rings[v.Index] = &v
	}
	var text bytes.Buffer
	n := 0
	for _, v := range r.Blocks(stats.Sockets) {
		if q.Socket == 0 || v.ID == uint64(q.Socket) {
			stats.WriteSocket(&text, &v, rings[v.Parent], "")
			n++
		}
	}
	if n == 0 && q.Socket != 0 {
		return fmt.Errorf("dump: no published socket has the id %d", q.Socket)
	}
	for _, log := range p.logs() {
		for line := range bytes.Lines(text.Bytes()) {
			conf.LogAt(log, level, string(bytes.TrimRight(line, "\n")))
		}
	}
	_, err = w.Write(text.Bytes())
	return err
}

// logs are those of the engines; of those that write through the same logger of the program's one.
func (p *publication) logs() (list []*slog.Logger) {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := map[*slog.Logger]bool{}
	for _, e := range p.engines {
		to := cmp.Or(e.log.Through(), e.log.Logger)
		if !seen[to] {
			seen[to] = true
			list = append(list, e.log.Logger)
		}
	}
	return list
}
