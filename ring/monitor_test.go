package ring

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// counting is a Monitor that has no room, and counts what is asked of it.
type counting struct {
	Monitor
	opened, skipped int
}

func (c *counting) OpenSocket(*Socket) *SocketPage {
	c.opened++
	return nil
}

func (c *counting) SkipSocket() { c.skipped++ }

// A socket in a slot beyond those that may have pages is counted, not left out.
func TestSocketsBeyondTheSlotsAreCounted(t *testing.T) {
	m := &counting{}
	r := &Ring{set: &Set{config: SetConfig{Monitor: m}}}
	for _, slot := range []uint32{0, maxMonitored - 1, maxMonitored, 1 << 20} {
		s := &Socket{}
		s.handle.Slot = slot
		r.openPage(s)
	}
	require.Equal(t, 2, m.opened)
	require.Equal(t, 2, m.skipped)
	require.Empty(t, r.pages.list)
}

func TestPeakOfTwoIntervals(t *testing.T) {
	var p Peak
	p.note(6, 3)
	p.note(6, 9)
	p.note(6, 4)
	p.note(7, 2)
	require.Equal(t, Peak{{6, 9}, {7, 2}}, p)
	p.note(8, 1)
	require.Equal(t, Peak{{8, 1}, {7, 2}}, p)
}

// paging is a Monitor that gives each socket a page, and forgets it when it is closed.
type paging struct {
	Monitor
	page *SocketPage
}

func (p *paging) OpenSocket(*Socket) *SocketPage { return p.page }
func (p *paging) DescribeSocket(*Socket)         {}
func (p *paging) CloseSocket(*Socket)            { *p.page = SocketPage{} }

// A socket with a page counts in it alone, and keeps the counts when the page is closed, also those beyond what its record has room for.
func TestCountsOfASocketWithAPage(t *testing.T) {
	set := &Set{sockets: socketTable{current: -1}, actives: []*activeState{{}}, settings: []*settings{{}}, config: SetConfig{Monitor: &paging{page: &SocketPage{}}}}
	set.number = sets.add(set)
	defer sets.close(set.number, closedSet)
	r := &Ring{set: set}
	r.number = rings.add(r)
	defer rings.close(r.number, closedRing)
	s := set.sockets.add()
	s.maker = set.number
	s.setRing(r)
	const n = 3 << 30
	s.countSent(r, 1, 10)
	r.openPage(s)
	require.NotNil(t, r.pageOf(s))
	for range 5 {
		s.countReceived(r, n, true)
		s.countSent(r, 1<<31, n)
	}
	page := r.pageOf(s).page
	require.EqualValues(t, 5, page.Packets)
	require.EqualValues(t, 5*n, page.KernelBytes)
	want := socketCounts{Packets: 5, Bytes: 5 * n, SentMessages: 5<<31 + 1, SentBytes: 5*n + 10}
	require.Equal(t, want, s.totalCounts())
	r.pages.list[0].takeCounts()
	require.Nil(t, r.pageOf(s))
	require.Equal(t, want, s.totalCounts())
}
