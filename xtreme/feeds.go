package xtreme

import (
	"fmt"
	"sync"

	"github.com/socketxtreme/socketxtreme/feed"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/stats"
)

// FeedSource is what counts a feed: a feed.Channel.
type FeedSource interface {
	Stats() FeedStats
	Line(i uint8) FeedLineStats
}

// FeedPublisher publishes what a feed counts, for xtstat and /metrics. Its methods are for any goroutine.
type FeedPublisher struct {
	mu    sync.Mutex
	feed  publishedFeed
	lines []publishedLine // the last one is the recovery server's
}

type publishedFeed struct {
	block *stats.Block // nil: it found no room, or the publisher is closed
	page  *feedPage
}

type publishedLine struct {
	block  *stats.Block // as of publishedFeed
	page   *linePage
	number uint8
	info   string // what the block says of it
}

// feedPage and linePage are the words of the sections stats.Feeds and stats.Lines.
type (
	feedPage struct {
		DeliveredMessages    uint64
		RecoveredMessages    uint64
		UnrecoveredMessages  uint64
		Gaps                 uint64
		FilledByLineMessages uint64
		RecoveryRequests     uint64
		RecoveryRejects      uint64
		Overflows            uint64
		OpenGaps             uint64
		NextSequence         uint64
	}
	linePage struct {
		Segments          uint64
		Bytes             uint64
		FirstMessages     uint64
		DuplicateMessages uint64
		Gaps              uint64
		LostMessages      uint64
		FilledMessages    uint64
		ReorderedMessages uint64
		LateMessages      uint64
		Malformed         uint64
		LastSequence      uint64
		Dead              uint64
	}
)

// PublishFeed gives a feed its place in the file that xtstat and /metrics read, under a name, with the names of its lines in their order. The
// engine's Close closes it. Without published statistics, or without room, Store does nothing; the file counts feeds and lines without room.
func (e *Engine) PublishFeed(name string, lines ...string) *FeedPublisher {
	p := &FeedPublisher{}
	if e.stats == nil {
		return p
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return p
	}
	file := e.stats.file
	if b := file.Open(stats.Feeds, nil, 0); b != nil {
		b.SetInfo("feed=" + oneLine(name) + "\n")
		p.feed = publishedFeed{b, sys.Overlay[feedPage](b.Counters())}
	}
	open := func(number uint8, line string) {
		if b := file.Open(stats.Lines, p.feed.block, uint64(number)); b != nil {
			info := fmt.Sprintf("feed=%s\nline=%s\n", oneLine(name), oneLine(line))
			b.SetInfo(info)
			p.lines = append(p.lines, publishedLine{b, sys.Overlay[linePage](b.Counters()), number, info})
		}
	}
	for i, line := range lines {
		open(uint8(i), line)
	}
	open(feed.Recovery, "recovery")
	e.feeds = append(e.feeds, p)
	return p
}

// SetSocket says which socket receives a line, or feed.Recovery: "xtstat why" tells by it what the feed has lost there.
func (p *FeedPublisher) SetSocket(line uint8, s *Socket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.lines {
		if l := &p.lines[i]; l.number == line {
			l.block.SetInfo(fmt.Sprintf("%ssocket=%d\n", l.info, uint32(s.ID())))
		}
	}
}

// Store publishes what a feed has counted until now. The goroutine that owns the feed calls it after each batch of packets, say: what was stored
// last is what readers see, also when the loop hangs. It does not allocate.
func (p *FeedPublisher) Store(from FeedSource) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.feed.block != nil {
		p.feed.page.store(from.Stats())
	}
	for i := range p.lines {
		p.lines[i].page.store(from.Line(p.lines[i].number))
	}
}

func (p *feedPage) store(s FeedStats) {
	*p = feedPage{DeliveredMessages: s.Delivered, RecoveredMessages: s.Recovered, UnrecoveredMessages: s.Unrecovered, Gaps: s.Gaps,
		FilledByLineMessages: s.FilledByLine, RecoveryRequests: s.Requests, RecoveryRejects: s.Rejects, Overflows: s.Overflows,
		OpenGaps: uint64(s.Holes), NextSequence: s.Next}
}

func (p *linePage) store(s FeedLineStats) {
	*p = linePage{Segments: s.Segments, Bytes: s.Bytes, FirstMessages: s.FirstWins, DuplicateMessages: s.Duplicates, Gaps: s.Gaps,
		LostMessages: s.Lost, FilledMessages: s.Filled, ReorderedMessages: s.Reordered, LateMessages: s.Late, Malformed: s.Malformed,
		LastSequence: s.Next - min(s.Next, 1), Dead: word(s.Dead)}
}

// word is a flag as a counter.
func word(set bool) uint64 {
	if set {
		return 1
	}
	return 0
}

// Close gives the feed's place back. Store does nothing afterwards.
func (p *FeedPublisher) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.lines {
		p.lines[i].block.Close()
	}
	if p.feed.block != nil {
		p.feed.block.Close()
	}
	p.lines, p.feed = nil, publishedFeed{}
}

// closeFeeds closes what PublishFeed has opened.
func (e *Engine) closeFeeds() {
	for _, p := range e.feeds {
		p.Close()
	}
}
