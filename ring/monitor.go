package ring

import (
	"time"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// Monitor is where a set's counters are kept when other processes are to see them. The owner calls it when rings and sockets come and go, and
// when something happens that is told; never per packet. The memory that it gives consists of 64-bit words that only the owner writes.
type Monitor interface {
	// OpenRing gives zero memory for a ring's counts; nil: there is no room.
	OpenRing(r *Ring) *RingPage
	CloseRing(r *Ring)
	// OpenSocket gives zero memory for a socket that has got its ring; nil: there is no room.
	OpenSocket(s *Socket) *SocketPage
	CloseSocket(s *Socket)
	// SkipSocket counts a socket that gets no page because its ring has too many sockets.
	SkipSocket()
	// DescribeSocket is called when a socket's addresses, state, path or memberships have changed. It has a page.
	DescribeSocket(s *Socket)
	// Refresh is called inside the Poll that follows RequestRefresh, or before the owner sleeps. It must be short, and not allocate as a rule.
	Refresh(r *Ring)
	// Happened tells of an event of a socket; text is for people.
	Happened(s *Socket, what Happening, text string)
}

// EndMonitor is a Monitor that is told what each socket has counted when it is closed, those without a page included. Of those the counts of
// packets that came through the kernel and of segments that were sent again are 0.
type EndMonitor interface {
	Monitor
	EndSocket(s *Socket, counts *SocketPage)
}

// Happening is what Monitor.Happened tells of.
type Happening uint8

// The happenings.
const (
	HappenedPath  Happening = iota // the socket's packets travel another way
	HappenedJoin                   // it joined a group
	HappenedLeave                  // it left one
)

// RingPage is a ring's counts in memory that other processes may read: 64-bit words alone.
type RingPage struct {
	RingCounts
	Batch Peak // the most completions of one Poll
	Queue Peak // the most packets that waited in queues of sockets
}

// Peak is the most of something in an interval: the owner uses the pair of the interval's lowest bit, so that the last interval stays readable
// while the next one runs.
type Peak [2]struct{ Epoch, Most uint64 }

// note is the owner's: v was seen in an interval.
func (p *Peak) note(epoch, v uint64) {
	x := &p[epoch&1]
	if x.Epoch != epoch {
		x.Epoch, x.Most = epoch, v
	} else if v > x.Most {
		x.Most = v
	}
}

// SocketPage is a socket's counts in memory that other processes may read: 64-bit words alone. The first six are stored where the packet is
// counted, the others some ten times a second.
type SocketPage struct {
	Packets, Bytes             uint64
	KernelPackets, KernelBytes uint64 // of them, those of an offloaded socket that came through the kernel
	SentMessages, SentBytes    uint64

	Drops                         uint64
	CallbackDrops, CallbackHolds  uint64
	ShortSends, SendErrors        uint64
	WarmSends, WarmSendsCold      uint64
	AcceptFailures                uint64
	HeldBytes                     uint64
	QueuedPackets, QueuedBytes    uint64
	QueuedPacketsMax              uint64
	SendQueued, Budget, Offloaded uint64
	QueuedBytesMax, Retransmits   uint64
}

// monitored is what a ring has of a socket with a page.
type monitored struct {
	page   *SocketPage
	socket *Socket
	// What Monitor.DescribeSocket was called for last.
	state   state
	version uint32 // of the addresses

	retransmits uint32 // the transport's, when they were added to the page last
}

// maxMonitored bounds the slots whose sockets may have pages.
const maxMonitored = 4096

// refreshedAtOnce is how many sockets a refresh copies: what a Poll may take for it.
const refreshedAtOnce = 4

// CountsOf appends what the ring's driver counts by name, as RingStats.Driver has it; nil where it counts nothing. For monitors, which the owner
// calls.
func CountsOf(r *Ring, dst []Counter) []Counter {
	if x, ok := r.drv.(CounterSource); ok {
		return x.Counters(dst)
	}
	return nil
}

// LossesOf is how many frames the links of the ring's driver have lost; 0 where it has none. For monitors, which the owner calls.
func LossesOf(r *Ring) uint64 {
	if x, ok := r.drv.(LossSource); ok {
		return x.LinkLosses()
	}
	return 0
}

// PollsOf is how often the ring was polled, and how many of these polls returned something. For monitors, which the owner calls.
func PollsOf(r *Ring) (polls, hits uint64) { return r.stats.Polls, r.stats.Hits }

// FamilyOf is the family of the socket's addresses. For monitors.
func FamilyOf(s *Socket) Family { return s.family }

// monitor is the monitor of the ring's set; nil: none.
func (r *Ring) monitor() Monitor { return r.set.config.Monitor }

// openPages gives the ring its memory for counts.
func (r *Ring) openPages() {
	if m := r.monitor(); m != nil {
		r.stats = m.OpenRing(r)
	}
	if r.stats == nil {
		r.stats = &RingPage{}
	}
	r.epoch = r.set.config.Epoch
	if r.epoch == nil {
		r.epoch = new(uint64)
	}
}

// closePages gives the memory of openPages back to the monitor. The counts stay readable for the owner. epoch is given up, too: it may lie in
// the memory of the statistics file, which is unmapped later.
func (r *Ring) closePages() {
	page := *r.stats
	r.stats, r.epoch = &page, new(uint64)
	if m := r.monitor(); m != nil {
		m.CloseRing(r)
	}
}

// openPage publishes a socket that has got its slot, if there is room.
func (r *Ring) openPage(s *Socket) {
	m := r.monitor()
	if m == nil {
		return
	}
	slot := int(s.handle.Slot)
	if slot >= maxMonitored {
		m.SkipSocket()
		return
	}
	page := m.OpenSocket(s)
	if page == nil {
		return
	}
	for len(r.pages.list) <= slot {
		r.pages.list = append(r.pages.list, monitored{})
	}
	// Another version than the addresses have: describe is due.
	r.pages.list[slot] = monitored{page: page, socket: s, version: ^uint32(0)}
	if !s.isAccepted() { // connections that come in are described by the next refresh, if they live that long
		r.describe(&r.pages.list[slot])
	}
}

// closePage ends the publication of a socket that is being closed: its counts are copied a last time, and the monitor gets its page back.
func (r *Ring) closePage(s *Socket) {
	x := r.pageOf(s)
	if x != nil {
		r.refreshSocket(x)
	}
	if m, ok := r.monitor().(EndMonitor); ok {
		m.EndSocket(s, r.lastCounts(s, x))
	}
	if x != nil {
		x.takeCounts()
		r.monitor().CloseSocket(s)
	}
}

// takeCounts moves what was counted in the page to the socket's record, and leaves x empty: totalCounts adds what both have.
func (x *monitored) takeCounts() {
	s, p := x.socket, x.page
	*x = monitored{}
	s.addCounts(p.Packets, p.Bytes, p.SentMessages, p.SentBytes)
}

// lastCounts are the counts of a socket that is being closed: those of its page x, or, without one, what would be there.
func (r *Ring) lastCounts(s *Socket, x *monitored) *SocketPage {
	if x != nil {
		return x.page
	}
	c := s.totalCounts()
	without := monitored{socket: s, page: &SocketPage{Packets: c.Packets, Bytes: c.Bytes, SentMessages: c.SentMessages, SentBytes: c.SentBytes}}
	r.refreshSocket(&without)
	return without.page
}

func (r *Ring) pageOf(s *Socket) *monitored {
	if slot := int(s.handle.Slot); slot < len(r.pages.list) && r.pages.list[slot].socket == s {
		return &r.pages.list[slot]
	}
	return nil
}

// socketPages are the pages of a ring's sockets.
type socketPages struct {
	list []monitored // by slot; as long as needed
	next int         // that the next refresh begins with
}

// at is the page of the socket in the slot; nil: it has none. It is inlined, and so are the two that call it.
func (x *socketPages) at(slot uint32) *SocketPage {
	if int(slot) >= len(x.list) {
		return nil
	}
	return x.list[slot].page
}

// pageReceived counts a packet of n bytes in the page of the socket in the slot; false: it has none.
func (r *Ring) pageReceived(slot uint32, n int, viaKernel bool) bool {
	p := r.pages.at(slot)
	if p == nil {
		return false
	}
	p.Packets++
	p.Bytes += uint64(n)
	if viaKernel {
		p.KernelPackets++
		p.KernelBytes += uint64(n)
	}
	return true
}

// pageSent is the same for messages that were sent, and n bytes in them.
func (r *Ring) pageSent(slot uint32, messages, n int) bool {
	p := r.pages.at(slot)
	if p == nil {
		return false
	}
	p.SentMessages += uint64(messages)
	p.SentBytes += uint64(n)
	return true
}

// RequestRefresh has the owner copy what is not stored where it is counted, in its next Poll or before it sleeps. It wakes no owner. Any
// goroutine.
func RequestRefresh(r *Ring) {
	if !r.inbox.refreshRequested() {
		r.inbox.flags.Or(inboxRefresh)
	}
}

// refresh is the owner's part of RequestRefresh: the counts of a few sockets, and the monitor's.
func (r *Ring) refresh() {
	r.inbox.flags.And(^uint32(inboxRefresh))
	m := r.monitor()
	if m == nil {
		return
	}
	for range min(refreshedAtOnce, len(r.pages.list)) {
		if r.pages.next >= len(r.pages.list) {
			r.pages.next = 0
		}
		if x := &r.pages.list[r.pages.next]; x.page != nil {
			r.refreshSocket(x)
			r.describe(x)
		}
		r.pages.next++
	}
	m.Refresh(r)
	r.readTraceLevel()
}

// describe has the monitor describe the socket after a call of the application's: the owner may sleep from then on, without a Poll.
func (s *Socket) describe() {
	if r := s.ring(); r != nil && r.monitor() != nil {
		if x := r.pageOf(s); x != nil {
			r.describe(x)
		}
	}
}

// describe has the monitor describe a socket in which something has changed.
func (r *Ring) describe(x *monitored) {
	if s := x.socket; x.state != s.state || x.version != s.ends.version.Load() {
		x.state, x.version = s.state, s.ends.version.Load()
		r.monitor().DescribeSocket(s)
	}
}

// refreshSocket copies to a socket's page what is not counted in the page itself: counts of seldom events, the lengths of its queues, the memory
// it holds, and the drops of the kernel.
func (r *Ring) refreshSocket(x *monitored) {
	s, p := x.socket, x.page
	c := s.totalCounts()
	p.CallbackDrops, p.CallbackHolds, p.ShortSends, p.SendErrors = c.CallbackDrops, c.CallbackHolds, c.ShortSends, c.SendErrors
	p.WarmSends, p.WarmSendsCold = c.WarmSends, c.WarmSendsCold
	a := s.active()
	p.AcceptFailures = a.acceptErrs
	p.QueuedPackets, p.QueuedBytes = uint64(a.received.n)+uint64(a.unseen.n), uint64(a.waiting)
	p.QueuedPacketsMax, p.QueuedBytesMax = max(p.QueuedPacketsMax, p.QueuedPackets), max(p.QueuedBytesMax, p.QueuedBytes)
	p.SendQueued = uint64(a.sending.waiting.n) + uint64(a.sending.inflight)
	p.Budget, p.HeldBytes, p.Offloaded = uint64(s.config().Budget), 0, 0
	if s.handle.Account != 0 {
		p.HeldBytes = uint64(r.pool.Used(s.handle.Account))
	}
	if s.isOffloaded() {
		p.Offloaded = 1
	}
	p.Drops = max(p.Drops, s.dropsForMonitor()) // it must not fall for those who read it: another transport counts anew
	x.addRetransmits()
}

// countRetransmits is addRetransmits for a socket that the driver is about to let go of, if it has a page.
func (s *Socket) countRetransmits() {
	if x := s.ring().pageOf(s); x != nil {
		x.addRetransmits()
	}
}

// addRetransmits adds to a connection's page what the transport has sent again since the last call. A connection that has moved has another
// transport, which counts anew. The last call is that of detach: later the descriptor may be another socket's.
func (x *monitored) addRetransmits() {
	s := x.socket
	if s.handle.Kind != KindStream || s.family == UnixDomain || s.active().sending.detaching {
		return
	}
	t, ok := s.transport().(Retransmitter)
	if !ok {
		return
	}
	n, err := t.Retransmits(s)
	if err != nil {
		return
	}
	if n < x.retransmits {
		x.retransmits = 0
	}
	x.page.Retransmits += uint64(n - x.retransmits)
	x.retransmits = n
}

// dropsForMonitor is the count of datagrams that the transport has dropped, as it was when Close was called if it was; 0 where nobody is told.
func (s *Socket) dropsForMonitor() uint64 {
	if s.state >= stateClosing {
		return s.active().lastDrops
	}
	if r := s.ring(); r == nil || r.monitor() == nil || s.handle.Kind != KindDatagram {
		return 0
	}
	n, err := s.transport().Drops(s)
	if err != nil {
		return 0
	}
	return uint64(n)
}

// happened tells the monitor of an event of a socket, and what the socket is now.
func (s *Socket) happened(what Happening, text string) {
	r := s.ring()
	if r == nil || r.monitor() == nil {
		return
	}
	r.monitor().Happened(s, what, text)
	if x := r.pageOf(s); x != nil {
		r.monitor().DescribeSocket(s)
	}
}

// memberHappened tells the monitor of a membership.
func (s *Socket) memberHappened(m Membership, join bool) {
	if r := s.ring(); r == nil || r.monitor() == nil {
		return
	}
	text := m.Group.String()
	if m.Source.IsValid() {
		text += " from " + m.Source.String()
	}
	what := HappenedLeave
	if join {
		what = HappenedJoin
	}
	s.happened(what, text)
}

// notePoll is the end of a Poll that has returned completions.
func (r *Ring) notePoll(n int) {
	epoch := *r.epoch
	r.stats.Hits++
	r.stats.Batch.note(epoch, uint64(n))
	if r.slab.used > 0 {
		r.stats.Queue.note(epoch, uint64(r.slab.used))
	}
}

// beginSleep and endSleep stand around a sleep: what passes meanwhile is no gap. begin is 0 where nothing is measured.
func (r *Ring) beginSleep() (begin clock.Time) {
	if l := r.loop; l != nil && l.measuresSleep {
		begin = r.clock()
		l.page.AsleepSince = uint64(time.Now().UnixNano())
	}
	return begin
}

// beginArmedSleep and endArmedSleep are the same for a caller that sleeps on descriptors: from the first Arm of the loop's rings to the first
// Poll of one of them, or to EndSleep.
func (r *Ring) beginArmedSleep() {
	if l := r.loop; l != nil && l.armed == 0 {
		l.armed = r.beginSleep()
	}
}

// EndSleep ends the sleep that Arm of r or another ring of its owner began, for a poller that sleeps on their descriptors itself. Owner only.
func EndSleep(r *Ring) { r.endArmedSleep() }

func (r *Ring) endArmedSleep() {
	if l := r.loop; l != nil {
		r.endSleep(l.armed)
		l.armed = 0
	}
}

// endSleep is the end of a sleep that began at begin, 0 if sleeps are not measured. The time that was slept is no gap between polls: the next
// one is counted from the next Poll on.
func (r *Ring) endSleep(begin clock.Time) {
	l := r.loop
	if l == nil {
		return
	}
	l.begin(*r.epoch)
	if begin != 0 {
		l.page.AsleepSince = 0
		l.page.SleepTime += uint64(r.clock().Sub(begin))
	}
}
