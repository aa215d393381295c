package buffers_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
)

// taken is all the credit there is, by account.
func taken(p *buffers.DriverPool) map[buffers.Account]int {
	all := map[buffers.Account]int{}
	for p.HasCredit() {
		c, ok := p.TakeCredit()
		if !ok {
			break
		}
		all[c.Account] += c.Bytes
	}
	return all
}

// Whatever way a received buffer comes back, its account has what was filled into it as credit, once.
func TestCredit(t *testing.T) {
	p := newPool(t, buffers.Layout{SmallSize: 128, SmallCount: 16, LargeSize: 1000, LargeCount: 2})
	a, b := open(t, p, 0), open(t, p, 0)
	early := receive(t, p, "before it asked", a)
	require.NoError(t, p.AskCredit(a, 7))
	require.NoError(t, early.Release())
	require.False(t, p.HasCredit())

	one, two, others := receive(t, p, "12345", a), receive(t, p, "123", a), receive(t, p, "x", b)
	require.NoError(t, one.Pull(2))
	require.NoError(t, one.Release())
	require.NoError(t, others.Release())
	require.Equal(t, map[buffers.Account]int{a: 5}, taken(p), "what was received, not what was left to read")
	l := lend(t, two)
	require.False(t, p.HasCredit())
	require.NoError(t, l.Release())
	p.Reclaim()
	require.Equal(t, map[buffers.Account]int{a: 3}, taken(p), "lent")

	sent := receive(t, p, "1234567", a)
	p.Deliver(sent)
	sent, err := p.Transmit(sent)
	require.NoError(t, err)
	p.FreeTransmit(sent)
	kept := receive(t, p, "12", a)
	buffer := kept.Buffer()
	require.NoError(t, buffer.Retain())
	require.NoError(t, kept.Release())
	require.Equal(t, map[buffers.Account]int{a: 7}, taken(p), "sent on; one is kept")
	require.NoError(t, buffer.Release())
	chain := p.Append(receive(t, p, "1", a), receive(t, p, "22", a))
	require.NoError(t, chain.Release())
	require.Equal(t, map[buffers.Account]int{a: 5}, taken(p), "in one entry")

	// The credit of a closed account is dropped: the next account in its slot does not get it.
	last := receive(t, p, "last", a)
	late := receive(t, p, "late", a)
	require.NoError(t, last.Release())
	require.NoError(t, p.CloseAccount(a))
	require.NoError(t, late.Release())
	require.ErrorIs(t, p.AskCredit(a, 7), buffers.ErrAccount)
	next := open(t, p, 0)
	require.Equal(t, slot(a), slot(next))
	require.NoError(t, p.AskCredit(next, 8))
	require.NoError(t, receive(t, p, "abc", next).Release())
	require.Equal(t, map[buffers.Account]int{next: 3}, taken(p))
	require.NoError(t, p.Verify())
	require.ErrorIs(t, p.AskCredit(0, 0), buffers.ErrAccount)
}

// Noting credit does not allocate, however many accounts ask.
func TestCreditAllocations(t *testing.T) {
	p := newPool(t, buffers.Layout{SmallSize: 128, SmallCount: 256, LargeSize: 1000, LargeCount: 1})
	var all []buffers.Account
	for range 200 {
		a := open(t, p, 0)
		require.NoError(t, p.AskCredit(a, 7))
		all = append(all, a)
	}
	require.Zero(t, testing.AllocsPerRun(10, func() {
		for _, a := range all {
			i, _ := p.Take(buffers.Small)
			_ = p.Fill(i, 0, 5, a).Release()
		}
		for p.HasCredit() {
			if _, ok := p.TakeCredit(); !ok {
				t.Fatal("no credit")
			}
		}
	}))
}

// A buffer is kept until the peer has confirmed it; only while no link refers to it may it be written to.
func TestUnacknowledged(t *testing.T) {
	p := tiny(t)
	pk, err := p.Alloc(4)
	require.NoError(t, err)
	pk, err = p.Transmit(pk)
	require.NoError(t, err)
	panics(t, "not unacknowledged", func() { p.Retransmit(pk) })
	p.Unacknowledge(pk)
	require.Equal(t, 1, p.Ledger().Unacknowledged)
	require.Equal(t, p.Ledger().Total, p.Ledger().Sum())
	panics(t, "is unacknowledged, not transmitting", func() { p.Unacknowledge(pk) })
	require.NoError(t, p.Verify())
	p.Retransmit(pk)
	require.Equal(t, 1, p.Ledger().Transmitting)
	p.Unacknowledge(pk)
	p.FreeTransmit(pk)
	require.Equal(t, p.Ledger().Total, p.Ledger().Free)

	pk, _ = p.AllocTransmit(0, 4)
	p.Unacknowledge(pk)
	p.Complete(pk)
	require.Equal(t, 1, p.Ledger().Completing)
	require.NoError(t, pk.Release())
	require.NoError(t, p.Verify())
}

// A frame's account gets as credit what Trim, or DeliverFrame, leaves of it: the payload, not the headers.
func TestCreditOfFrames(t *testing.T) {
	p := newPool(t, buffers.Layout{SmallSize: 128, SmallCount: 8, LargeSize: 1000, LargeCount: 2})
	a := open(t, p, 0)
	require.NoError(t, p.AskCredit(a, 7))
	frame := func(text string) buffers.Packet {
		i, ok := p.Take(buffers.Small)
		require.True(t, ok)
		return p.Fill(i, 0, copy(p.Memory(i), text), 0)
	}
	one := frame("header payload")
	p.Trim(one, 7, 7, a)
	require.NoError(t, one.Release())
	require.Equal(t, map[buffers.Account]int{a: 7}, taken(p))

	one = frame("header payload!")
	_, ok := p.DeliverFrame(one, 7, 8, a)
	require.True(t, ok)
	require.NoError(t, one.Release())
	require.Equal(t, map[buffers.Account]int{a: 8}, taken(p))

	chain := p.Append(frame("header pay"), frame("load and padding"))
	p.Trim(chain, 7, 7, a)
	require.Equal(t, 7, chain.Len())
	require.NoError(t, chain.Release())
	require.Equal(t, map[buffers.Account]int{a: 7}, taken(p), "of a chain once")
}
