package xtreme

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/stats"
)

// monitor gives the rings and sockets of a poller their counters in the file of the process. It is the poller's, as its rings are.
type monitor struct {
	of      *publication
	poller  *Poller
	block   *stats.Block // of the poller; nil: it found no room
	loop    *ring.Loop
	drops   *stats.Block // of the offloaded ring that is being made, or could not be made; nil: none
	rings   map[*ring.Ring]*ringBlocks
	sockets map[*ring.Socket]*stats.Block
	second  atomic.Bool // the next Refresh copies the drivers' counts: it is the first one of a second
	scratch []ring.Counter
	thread  threadMeter // the owner's
	gaps    gapQueue    // from the owner to the statistics' goroutine
}

// ringBlocks are a ring's blocks, each nil where there was no room, or nothing to count.
type ringBlocks struct {
	ring, drops, driver *stats.Block

	lost uint64 // frames that the links had lost when the driver's counts were copied last
}

// newMonitor is nil where nothing is published.
func newMonitor(of *publication, p *Poller) *monitor {
	if of == nil {
		return nil
	}
	m := &monitor{of: of, poller: p, rings: map[*ring.Ring]*ringBlocks{}, sockets: map[*ring.Socket]*stats.Block{}}
	if m.block = of.file.Open(stats.Pollers, nil, 0); m.block != nil {
		m.block.SetInfo("name=" + oneLine(p.name) + "\n")
		m.loop = ring.NewLoop(sys.Overlay[ring.LoopPage](m.block.Counters()), &p.pool.Pool, p.engine.settings.CPUUsage, m.gap)
		of.addMonitor(m)
	}
	return m
}

// oneLine makes a text fit a line of key=value.
func oneLine(text string) string { return strings.ReplaceAll(text, "\n", " ") }

// close gives back the poller's block, and that for the drops of an offloaded ring that could not be made. The poller's rings are closed before.
func (m *monitor) close() {
	if m == nil {
		return
	}
	if m.drops != nil {
		m.drops.Close()
		m.drops = nil
	}
	if m.block != nil {
		m.of.removeMonitor(m)
		m.block.Close()
	}
}

// configure has a set count in the file, and report, unless it is nil, write what its sockets have counted when they are closed.
func (m *monitor) configure(c *ring.SetConfig, report *socketReport) {
	if m != nil {
		c.Monitor, c.Epoch, c.Loop = m, m.of.file.Epoch(), m.loop
	}
	if report != nil {
		if c.Monitor == nil {
			c.Monitor = unpublished{}
		}
		c.Monitor = &reporting{c.Monitor, report, map[*ring.Socket]struct{}{}}
	}
}

// linkChanged is offload.Config.LinkChanged, which writes what happened to an interface into the journal; nil where nothing is published.
func (m *monitor) linkChanged() func(offload.LinkChange) {
	if m == nil {
		return nil
	}
	return func(c offload.LinkChange) {
		m.of.file.Write(&stats.JournalEntry{Kind: stats.EventLink, Of: m.block, Count: 1, Name: c.Interface, Code: c.Code, Text: c.Interface + ": " + c.Text})
	}
}

// offloadDrops is the memory for the drops of an offloaded ring that is about to be made; nil: none.
func (m *monitor) offloadDrops() *[wire.NumDrops]uint64 {
	if m == nil {
		return nil
	}
	if m.drops != nil { // of one that could not be made
		m.drops.Close()
	}
	if m.drops = m.of.file.Open(stats.Drops, m.block, 0); m.drops == nil {
		return nil
	}
	return sys.Overlay[[wire.NumDrops]uint64](m.drops.Counters())
}

// OpenRing is called when a ring is opened: it opens the ring's blocks and returns the page for its counters, nil without room. An offloaded
// ring gets the block of drops that offloadDrops has opened, and one for its driver's counts.
func (m *monitor) OpenRing(r *ring.Ring) (page *ring.RingPage) {
	x := &ringBlocks{}
	m.rings[r] = x
	if x.ring = m.of.file.Open(stats.Rings, m.block, uint64(max(r.FD(), 0))); x.ring != nil {
		x.ring.SetInfo(fmt.Sprintf("kind=%s\npoller=%s\n", r.Kind(), oneLine(m.poller.name)))
		page = sys.Overlay[ring.RingPage](x.ring.Counters())
	}
	if ring.CountsOf(r, nil) != nil {
		x.drops, m.drops = m.drops, nil
		x.driver = m.of.file.Open(stats.Drivers, m.block, uint64(max(r.FD(), 0)))
	}
	m.of.mu.Lock()
	m.of.rings[r] = m
	m.of.mu.Unlock()
	return page
}

// CloseRing is called when a ring is closed: it closes the ring's blocks.
func (m *monitor) CloseRing(r *ring.Ring) {
	m.of.mu.Lock()
	delete(m.of.rings, r)
	m.of.mu.Unlock()
	x := m.rings[r]
	delete(m.rings, r)
	for _, b := range []*stats.Block{x.driver, x.drops, x.ring} {
		if b != nil {
			b.Close()
		}
	}
}

// OpenSocket is called when a socket is opened: it returns the page for its counters, nil without room.
func (m *monitor) OpenSocket(s *ring.Socket) *ring.SocketPage {
	b := m.of.file.Open(stats.Sockets, m.rings[s.Ring()].ring, uint64(uint32(s.ID())))
	if b == nil {
		return nil
	}
	m.sockets[s] = b
	return sys.Overlay[ring.SocketPage](b.Counters())
}

// CloseSocket is called when a socket that has a page is closed.
func (m *monitor) CloseSocket(s *ring.Socket) {
	b := m.sockets[s]
	delete(m.sockets, s)
	b.Close()
}

// SkipSocket is called for a socket that gets no page: the file counts it as not published.
func (m *monitor) SkipSocket() { m.of.file.CountUnpublished(stats.Sockets) }

// DescribeSocket writes what views show of a socket beside its counters.
func (m *monitor) DescribeSocket(s *ring.Socket) { m.sockets[s].SetInfo(describe(s)) }

// describe is what views show of a socket beside its counters, as lines of key=value: protocol, addresses or unix-domain names, state, inode,
// path, ring allocation logic, groups with their interfaces.
func describe(s *ring.Socket) string {
	var text strings.Builder
	line := func(key, value string) {
		if value != "" {
			text.WriteString(key + "=" + oneLine(value) + "\n")
		}
	}
	path := s.Path()
	line("protocol", protocolName(s))
	if a := s.LocalAddr(); a.IsValid() {
		line("local", a.String())
	}
	if a := s.RemoteAddr(); a.IsValid() {
		line("remote", a.String())
	}
	line("local", s.LocalUnix()) // "" of a socket that has addresses
	line("remote", s.RemoteUnix())
	line("state", s.State())
	var inode unix.Stat_t
	if unix.Fstat(s.ID(), &inode) == nil {
		line("inode", strconv.FormatUint(inode.Ino, 10))
	}
	options := ring.OptionsOf(s)
	if s.Kind() == ring.KindDatagram {
		line("mc_loop", strconv.FormatBool(options.MulticastLoop))
	}
	var groups, interfaces []string
	for _, g := range options.Groups {
		name := g.Group.String()
		if g.Source.IsValid() {
			name += "<" + g.Source.String()
		}
		groups, interfaces = append(groups, name), append(interfaces, options.InterfaceName(g))
	}
	line("path", path.String())
	line("ring_logic", s.Logic().String())
	line("groups", strings.Join(groups, ","))
	line("group_interfaces", strings.Join(interfaces, ",")) // in the order of groups
	return text.String()
}

// protocolName is the protocol as views print it: udp, tcp or unix.
func protocolName(s *ring.Socket) string {
	switch {
	case s.Kind() == ring.KindDatagram:
		return "udp"
	case ring.FamilyOf(s) == ring.UnixDomain:
		return "unix"
	}
	return "tcp"
}

// Refresh is called by the ring's owner after RequestRefresh: it looks at the log's level, and copies the counts of the pool to the poller's
// page. Once a second, and when links have lost frames, it also copies what the drivers count, some hundred words.
func (m *monitor) Refresh(r *ring.Ring) {
	m.poller.tracer.refresh()
	if m.loop != nil {
		m.loop.Refresh(*m.of.file.Epoch())
		m.thread.takeBaseline()
	}
	second := m.second.Load()
	if second {
		m.second.Store(false)
	}
	for r, x := range m.rings {
		if x.driver == nil {
			continue
		}
		x.driver.BeginLook(time.Now().UnixNano())
		if lost := ring.LossesOf(r); second || lost != x.lost {
			x.lost = lost
			m.copyDriver(r, x.driver)
		}
		x.driver.EndLook()
	}
}

// copyDriver stores what a driver counts by name, all but the drops, which are in the file already.
func (m *monitor) copyDriver(r *ring.Ring, to *stats.Block) {
	m.scratch = ring.CountsOf(r, m.scratch[:0])
	n := 0
	for _, c := range m.scratch {
		if !isDrop[c.Name] {
			to.SetNamed(n, c.Name, c.Value)
			n++
		}
	}
	to.SetCount(n)
}

// isDrop are the names of the reasons for drops.
var isDrop = func() map[string]bool {
	m := map[string]bool{}
	for i := 1; i < wire.NumDrops; i++ {
		m[wire.Drop(i).String()] = true
	}
	return m
}()

// Happened writes what happened to a socket into the journal: its path changed, or it joined or left a group.
func (m *monitor) Happened(s *ring.Socket, what ring.Happening, text string) {
	kind := [...]stats.EventKind{ring.HappenedPath: stats.EventPath, ring.HappenedJoin: stats.EventJoin, ring.HappenedLeave: stats.EventLeave}[what]
	if what == ring.HappenedPath {
		text = s.Path().String()
	}
	text = fmt.Sprintf("%s %v fd=%d", text, s.LocalAddr(), s.ID())
	m.of.file.Note(kind, m.sockets[s], 1, text)
	if what == ring.HappenedPath {
		m.poller.record.Note("path of a socket: " + text)
	}
}
