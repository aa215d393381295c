package buffers_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/stretchr/testify/require"
)

// model is the pool as one would write it without caring for speed: objects and slices. A byte string drives it and the
// real pool side by side; after every operation both must agree on everything that can be seen from outside.
type model struct {
	t     testing.TB
	p     *buffers.DriverPool
	ops   []byte
	seed  byte // of the next payload
	quiet bool // leave out misuse, which panics in debug mode

	free     [2]int
	filling  []uint32
	packets  []*mpacket // with references, the owner's or lent
	back     []*mpacket // lent, released, not reclaimed
	kept     []*mbuffer // by Buffer.Retain, with or without a packet
	accounts []*maccount

	stalePackets []buffers.Packet
	staleLents   []buffers.Lent
	staleBuffers []buffers.Buffer
	stats        buffers.Stats
	freed        uint64
}

type mbuffer struct {
	class    buffers.Class
	off      int // in the buffer's memory
	data     []byte
	refs     int
	h        buffers.Buffer
	account  *maccount
	inPacket bool
}

type mpacket struct {
	h     buffers.Packet
	lents []buffers.Lent
	refs  int
	bufs  []*mbuffer
	front int
	read  bool
	state string
}

type maccount struct {
	id     buffers.Account
	limit  int
	closed bool
	used   [2]int
}

var modelLayout = buffers.Layout{SmallSize: 100, SmallCount: 9, LargeSize: 500, LargeCount: 4, Headroom: 20}

func newModel(t testing.TB, ops []byte) *model {
	return &model{
		t: t, p: newPool(t, modelLayout), ops: ops,
		free:     [2]int{modelLayout.SmallCount, modelLayout.LargeCount},
		accounts: []*maccount{{}},
	}
}

// run interprets the byte string.
func (m *model) run() {
	steps := []func(){
		m.take, m.take, m.untake, m.fill, m.fill, m.fill, m.deliver, m.deliver, m.alloc, m.alloc, m.retain, m.release,
		m.release, m.lend, m.lend, m.lentRetain, m.lentRelease, m.lentRelease, m.reclaim, m.appendPacket, m.appendPacket,
		m.transmit, m.complete, m.bufferRetain, m.bufferRelease, m.pull, m.setLen, m.openAccount, m.closeAccount,
		m.setLimit, m.useStale,
	}
	for len(m.ops) > 0 {
		steps[m.arg(len(steps))]()
		m.compare()
	}
	m.drain()
}

// arg takes the next byte as a number below n; 0 when the string is at its end.
func (m *model) arg(n int) int {
	if len(m.ops) == 0 || n <= 0 {
		return 0
	}
	b := m.ops[0]
	m.ops = m.ops[1:]
	return int(b) % n
}

func pick[T any](m *model, s []T) (v T, ok bool) {
	if len(s) == 0 {
		return v, false
	}
	return s[m.arg(len(s))], true
}

func (m *model) owned(ok func(*mpacket) bool) (*mpacket, bool) {
	return pick(m, slices.DeleteFunc(slices.Clone(m.packets), func(k *mpacket) bool { return k.refs == 0 || !ok(k) }))
}

func any1(*mpacket) bool                    { return true }
func queuedOrHeld(k *mpacket) bool          { return k.state == "received" || k.state == "held" }
func (k *mpacket) exclusive() bool          { return k.refs == 1 && len(k.lents) == 0 }
func (m *model) nofail(err error)           { require.NoError(m.t, err) }
func (m *model) fails(err, want error)      { require.ErrorIs(m.t, err, want) }
func (m *model) payload(b []byte) []byte    { m.seed++; return fillWith(b, m.seed) }
func (m *model) stride(c buffers.Class) int { return modelLayout.Stride(c) }

func fillWith(b []byte, seed byte) []byte {
	for i := range b {
		b[i] = seed + byte(i)
	}
	return bytes.Clone(b)
}

// reserve is the part of Take and Alloc that looks for a free buffer.
func (m *model) reserve(c buffers.Class) bool {
	if m.free[c] == 0 {
		m.takeBack()
	}
	if m.free[c] == 0 {
		return false
	}
	m.free[c]--
	return true
}

func (m *model) take() {
	c := buffers.Class(m.arg(2))
	want := m.reserve(c)
	i, ok := m.p.Take(c)
	require.Equal(m.t, want, ok)
	if !ok {
		m.stats.Exhausted++
		return
	}
	require.Equal(m.t, c, m.p.ClassOf(i))
	m.filling = append(m.filling, i)
}

func (m *model) untake() {
	if i, ok := pick(m, m.filling); ok {
		m.p.Return(i)
		m.unfill(i)
		m.free[m.p.ClassOf(i)]++
		m.freed++
	}
}

func (m *model) unfill(i uint32) {
	m.filling = slices.DeleteFunc(m.filling, func(j uint32) bool { return i == j })
}

func (m *model) fill() {
	i, ok := pick(m, m.filling)
	if !ok {
		return
	}
	mem := m.p.Memory(i)
	off := m.arg(len(mem) + 1)
	n := m.arg(len(mem) - off + 1)
	a, _ := pick(m, m.accounts)
	pk := m.p.Fill(i, off, n, a.id)
	if a.closed && a.used == [2]int{} {
		m.stats.StaleAccounts++
		a = m.accounts[0]
	}
	m.unfill(i)
	m.add(pk, m.p.ClassOf(i), off, m.payload(mem[off:off+n]), a, "received")
}

func (m *model) add(pk buffers.Packet, c buffers.Class, off int, data []byte, a *maccount, state string) {
	a.used[c]++
	b := &mbuffer{class: c, off: off, data: data, h: pk.Buffer(), account: a, inPacket: true}
	m.packets = append(m.packets, &mpacket{h: pk, refs: 1, bufs: []*mbuffer{b}, state: state})
}

func (m *model) alloc() {
	n := m.arg(256) * 3
	pk, err := m.p.Alloc(n)
	if n > modelLayout.LargeSize {
		m.fails(err, buffers.ErrSize)
		return
	}
	for c := buffers.Small; c < buffers.NumClasses; c++ {
		if (c == buffers.Large || n <= modelLayout.SmallSize) && m.reserve(c) {
			m.nofail(err)
			m.add(pk, c, modelLayout.Headroom, m.payload(pk.Bytes()), m.accounts[0], "held")
			return
		}
	}
	m.stats.Exhausted++
	m.fails(err, buffers.ErrExhausted)
}

func (m *model) deliver() {
	if k, ok := m.owned(func(k *mpacket) bool { return queuedOrHeld(k) || k.state == "completing" }); ok {
		m.p.Deliver(k.h)
		k.state = "held"
	}
}

func (m *model) retain() {
	if k, ok := m.owned(any1); ok {
		m.nofail(k.h.Retain())
		k.refs++
	}
}

func (m *model) release() {
	k, ok := m.owned(any1)
	if !ok {
		return
	}
	m.nofail(k.h.Release())
	k.refs--
	if k.refs > 0 {
		return
	}
	m.stalePackets = append(m.stalePackets, k.h)
	if len(k.lents) > 0 {
		k.state = "lent"
		return
	}
	m.end(k)
}

// end dissolves a packet.
func (m *model) end(k *mpacket) {
	m.packets = slices.DeleteFunc(m.packets, func(o *mpacket) bool { return o == k })
	for i, b := range k.bufs {
		b.inPacket = false
		if i < k.front {
			b.data = nil
		}
		if b.refs == 0 {
			m.freeBuffer(b)
		}
	}
}

func (m *model) freeBuffer(b *mbuffer) {
	m.free[b.class]++
	m.freed++
	b.account.used[b.class]--
	m.staleBuffers = append(m.staleBuffers, b.h)
}

func (m *model) lend() {
	k, ok := m.owned(any1)
	if !ok {
		return
	}
	l, err := k.h.Lend()
	if !queuedOrHeld(k) {
		m.fails(err, buffers.ErrState)
		return
	}
	m.nofail(err)
	m.stats.Loans++
	k.lents = append(k.lents, l)
	k.refs--
	if k.refs == 0 {
		k.state = "lent"
		m.stalePackets = append(m.stalePackets, k.h)
	}
}

func (m *model) lent() (*mpacket, bool) {
	return pick(m, slices.DeleteFunc(slices.Clone(m.packets), func(k *mpacket) bool { return len(k.lents) == 0 }))
}

func (m *model) lentRetain() {
	if k, ok := m.lent(); ok {
		m.nofail(k.lents[0].Retain())
		k.lents = append(k.lents, k.lents[0])
	}
}

func (m *model) lentRelease() {
	k, ok := m.lent()
	if !ok {
		return
	}
	l := k.lents[len(k.lents)-1]
	m.nofail(l.Release())
	k.lents = k.lents[:len(k.lents)-1]
	if len(k.lents) == 0 {
		m.staleLents = append(m.staleLents, l)
		if k.refs == 0 {
			m.packets = slices.DeleteFunc(m.packets, func(o *mpacket) bool { return o == k })
			m.back = append(m.back, k)
		}
	}
}

func (m *model) reclaim() {
	want := 0
	for _, k := range m.back {
		want += len(k.bufs)
	}
	require.Equal(m.t, want, m.p.Reclaim())
	m.takeBack()
}

func (m *model) takeBack() {
	for _, k := range m.back {
		m.stats.Returned += uint64(len(k.bufs))
		m.end(k)
	}
	m.back = nil
}

func (m *model) appendPacket() {
	ok := func(k *mpacket) bool { return queuedOrHeld(k) && k.exclusive() }
	head, found := m.owned(ok)
	if !found {
		return
	}
	tail, found := m.owned(func(k *mpacket) bool { return ok(k) && k != head })
	if !found {
		return
	}
	require.Equal(m.t, head.h, m.p.Append(head.h, tail.h))
	m.stalePackets = append(m.stalePackets, tail.h)
	m.packets = slices.DeleteFunc(m.packets, func(k *mpacket) bool { return k == tail })
	head.bufs = append(head.bufs, tail.bufs...)
	if head.read {
		head.skipEmpty()
	}
}

func (k *mpacket) skipEmpty() {
	for len(k.bufs[k.front].data) == 0 && k.front < len(k.bufs)-1 {
		k.front++
	}
}

func (m *model) transmit() {
	k, ok := m.owned(any1)
	if !ok {
		return
	}
	pk, err := m.p.Transmit(k.h)
	switch {
	case !queuedOrHeld(k):
		m.fails(err, buffers.ErrState)
	case !k.exclusive():
		m.fails(err, buffers.ErrShared)
	default:
		m.nofail(err)
		m.stalePackets = append(m.stalePackets, k.h)
		k.h, k.state = pk, "transmitting"
	}
}

func (m *model) complete() {
	if k, ok := m.owned(func(k *mpacket) bool { return k.state == "transmitting" }); ok {
		m.p.Complete(k.h)
		k.state = "completing"
	}
}

func (m *model) bufferRetain() {
	k, ok := m.owned(any1)
	if !ok {
		return
	}
	n := m.arg(len(k.bufs))
	h, b := k.h.Buffer(), k.bufs[k.front]
	for i := k.front + 1; i < len(k.bufs) && i <= n; i++ {
		next, more := h.Next()
		require.True(m.t, more)
		h, b = next, k.bufs[i]
	}
	require.Equal(m.t, b.h, h)
	m.nofail(h.Retain())
	b.refs++
	if b.refs == 1 {
		m.kept = append(m.kept, b)
	}
}

func (m *model) bufferRelease() {
	b, ok := pick(m, m.kept)
	if !ok {
		return
	}
	m.nofail(b.h.Release())
	b.refs--
	if b.refs > 0 {
		return
	}
	m.kept = slices.DeleteFunc(m.kept, func(o *mbuffer) bool { return o == b })
	if !b.inPacket {
		m.freeBuffer(b)
	}
}

func (m *model) pull() {
	k, ok := m.owned(any1)
	if !ok {
		return
	}
	n := m.arg(k.len() + 2)
	err := k.h.Pull(n)
	if !k.exclusive() {
		m.fails(err, buffers.ErrShared)
		return
	}
	if n > k.len() {
		m.fails(err, buffers.ErrSize)
		return
	}
	m.nofail(err)
	for k.read = true; n > 0; {
		b := k.bufs[k.front]
		cut := min(n, len(b.data))
		b.data, b.off, n = b.data[cut:], b.off+cut, n-cut
		k.skipEmpty()
	}
	k.skipEmpty()
}

func (k *mpacket) len() (n int) {
	for _, b := range k.bufs[k.front:] {
		n += len(b.data)
	}
	return n
}

func (m *model) setLen() {
	k, ok := m.owned(any1)
	if !ok {
		return
	}
	room := k.h.Room()
	n := m.arg(256)
	if !k.exclusive() {
		require.Nil(m.t, room)
		m.fails(k.h.SetLen(n), buffers.ErrShared)
		return
	}
	b := k.bufs[k.front]
	require.Len(m.t, room, m.stride(b.class)-b.off)
	if n > len(room) {
		m.fails(k.h.SetLen(n), buffers.ErrSize)
		return
	}
	b.data = m.payload(room[:n])
	m.nofail(k.h.SetLen(n))
}

// useStale tries every way to misuse a handle that is used up.
func (m *model) useStale() {
	if m.quiet {
		return
	}
	if pk, ok := pick(m, m.stalePackets); ok {
		stalePacketIsHarmless(m.t, m.p, pk)
		m.stats.StaleReleases++
		m.stats.StaleUses += 5
	}
	if l, ok := pick(m, m.staleLents); ok {
		staleLentIsHarmless(m.t, l)
		m.stats.StaleReleases++
	}
	if b, ok := pick(m, m.staleBuffers); ok {
		staleBufferIsHarmless(m.t, b)
		m.stats.StaleReleases++
		m.stats.StaleUses++
	}
}
