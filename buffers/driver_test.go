package buffers_test

import (
	"testing"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/stretchr/testify/require"
)

// A packet that is received, sent on, and given back to its sender, with the ledger after each step.
func TestRoundTrip(t *testing.T) {
	p := tiny(t)
	at := func(want buffers.Ledger) {
		t.Helper()
		want.Total = 6
		require.Equal(t, want, p.Ledger())
		require.NoError(t, p.Verify())
	}
	i, ok := p.Take(buffers.Large)
	require.True(t, ok)
	at(buffers.Ledger{Free: 5, Filling: 1})
	copy(p.Memory(i)[7:], "ping")
	pk := p.Fill(i, 7, 4, 0)
	j, ok := p.Take(buffers.Small)
	require.True(t, ok)
	pk = p.Append(pk, p.Fill(j, 0, 0, 0))
	at(buffers.Ledger{Free: 4, Received: 2})
	p.Deliver(pk)
	at(buffers.Ledger{Free: 4, Held: 2})
	p.Deliver(pk)
	at(buffers.Ledger{Free: 4, Held: 2})

	sent, err := p.Transmit(pk)
	require.NoError(t, err)
	stalePacketIsHarmless(t, p, pk)
	at(buffers.Ledger{Free: 4, Transmitting: 2})
	require.Equal(t, "ping", string(sent.Bytes()))
	panics(t, "Deliver: buffer 4 is transmitting", func() { p.Deliver(sent) })
	_, err = p.Transmit(sent)
	require.ErrorIs(t, err, buffers.ErrState)
	_, err = sent.Lend()
	require.ErrorIs(t, err, buffers.ErrState)

	p.Complete(sent)
	at(buffers.Ledger{Free: 4, Completing: 2})
	panics(t, "Complete: buffer 4 is completing, not transmitting", func() { p.Complete(sent) })
	p.Deliver(sent)
	at(buffers.Ledger{Free: 4, Held: 2})
	require.NoError(t, sent.Release())
}

func TestTransmitNeedsASingleReference(t *testing.T) {
	p := tiny(t)
	pk := receive(t, p, "x", 0)
	require.NoError(t, pk.Retain())
	_, err := p.Transmit(pk)
	require.ErrorIs(t, err, buffers.ErrShared)
	require.True(t, pk.Valid(), "nothing has changed")
	require.NoError(t, pk.Release())

	// A kept buffer is only read: it does not stand in the way, and survives.
	b := pk.Buffer()
	require.NoError(t, b.Retain())
	sent, err := p.Transmit(pk)
	require.NoError(t, err)
	p.Complete(sent)
	require.NoError(t, sent.Release())
	require.Equal(t, "x", string(b.Bytes()))
	require.NoError(t, b.Release())
}

func TestDriverMistakesPanic(t *testing.T) {
	p := tiny(t)
	i, _ := p.Take(buffers.Small)
	size := len(p.Memory(i))
	for _, c := range []struct{ off, n int }{{-1, 0}, {0, -1}, {0, size + 1}, {size + 1, 0}, {size, 1}} {
		panics(t, "buffer 0 is filling", func() { p.Fill(i, c.off, c.n, 0) })
	}
	require.NoError(t, p.Fill(i, size, 0, 0).Release(), "an empty payload at the end is one")
	panics(t, "Fill: buffer 0 is free", func() { p.Fill(i, 0, 1, 0) })
	panics(t, "Return: buffer 0 is free, not filling", func() { p.Return(i) })
	require.Panics(t, func() { p.Return(6) })
}

func TestRecall(t *testing.T) {
	for _, debug := range []bool{false, true} {
		p := tiny(t)
		p.SetDebug(debug)
		pk, err := p.Alloc(4)
		require.NoError(t, err)
		sent, err := p.Transmit(pk)
		require.NoError(t, err)
		require.Panics(t, func() { p.UndoTransmit(sent, sent) }, "not the handle that Transmit took")
		p.UndoTransmit(pk, sent)
		require.True(t, pk.Valid())
		require.False(t, sent.Valid())
		require.Equal(t, 1, p.Ledger().Held)
		require.Panics(t, func() { p.UndoTransmit(pk, sent) }, "twice")
		require.NoError(t, p.Verify())
		require.NoError(t, pk.Release())
	}
}
