package buffers_test

import (
	"bytes"
	"slices"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/stretchr/testify/require"
)

// drain gives everything back and expects a full pool.
func (m *model) drain() {
	for _, i := range m.filling {
		m.p.Return(i)
	}
	for _, k := range m.packets {
		for range k.refs {
			m.nofail(k.h.Release())
		}
		for _, l := range k.lents {
			m.nofail(l.Release())
		}
	}
	for _, b := range m.kept {
		for range b.refs {
			m.nofail(b.h.Release())
		}
	}
	m.p.Reclaim()
	m.nofail(m.p.Verify())
	total := modelLayout.SmallCount + modelLayout.LargeCount
	require.Equal(m.t, buffers.Ledger{Free: total, Total: total}, m.p.Ledger())
	for _, a := range m.accounts {
		require.Zero(m.t, m.p.Used(a.id))
	}
}

// compare looks at everything.
func (m *model) compare() {
	m.nofail(m.p.Verify())
	require.Equal(m.t, m.ledger(), m.p.Ledger())
	require.Equal(m.t, m.stats, m.p.Stats())
	require.Equal(m.t, m.freed, m.p.Freed())
	avail := m.free
	for _, i := range m.filling {
		avail[m.p.ClassOf(i)]++
	}
	for c := buffers.Small; c < buffers.NumClasses; c++ {
		require.Equal(m.t, avail[c], m.p.Available(c))
	}
	for _, a := range m.accounts {
		used := a.used[0]*m.stride(buffers.Small) + a.used[1]*m.stride(buffers.Large)
		over := a.used[0] > avail[0] || a.used[1] > avail[1] || a.limit > 0 && used >= a.limit
		require.Equal(m.t, used, m.p.Used(a.id), "account %d", a.id)
		require.Equal(m.t, a.id != 0 && (over || a.settled()), m.p.Over(a.id), "account %d", a.id)
	}
	for _, k := range m.packets {
		m.comparePacket(k)
	}
	for _, b := range m.kept {
		require.True(m.t, b.h.Valid())
		require.True(m.t, bytes.Equal(b.data, b.h.Bytes()))
	}
}

func (m *model) comparePacket(k *mpacket) {
	var all []byte
	for _, b := range k.bufs[k.front:] {
		all = append(all, b.data...)
	}
	front := k.bufs[k.front].data
	read := make([]byte, len(all)+1)
	if k.refs > 0 {
		require.True(m.t, k.h.Valid())
		require.True(m.t, bytes.Equal(front, k.h.Bytes()))
		require.Equal(m.t, len(all), k.h.Len())
		require.Equal(m.t, len(k.bufs), k.h.NumBuffers())
		require.Equal(m.t, len(all), k.h.CopyTo(read))
		require.True(m.t, bytes.Equal(all, read[:len(all)]))
		require.True(m.t, bytes.Equal(all, slices.Concat(slices.Collect(k.h.Segments())...)))
	}
	for _, l := range k.lents {
		require.True(m.t, l.Valid())
		require.True(m.t, bytes.Equal(front, l.Bytes()))
		require.Equal(m.t, len(all), l.Len())
		require.Equal(m.t, len(all), l.CopyTo(read))
		require.True(m.t, bytes.Equal(all, read[:len(all)]))
		require.True(m.t, bytes.Equal(all, slices.Concat(slices.Collect(l.Segments())...)))
	}
}

func (m *model) ledger() buffers.Ledger {
	l := buffers.Ledger{
		Free: m.free[0] + m.free[1], Filling: len(m.filling), Total: modelLayout.SmallCount + modelLayout.LargeCount,
	}
	for _, k := range m.back {
		l.Lent += len(k.bufs)
	}
	for _, k := range m.packets {
		*map[string]*int{
			"received": &l.Received, "held": &l.Held, "lent": &l.Lent,
			"transmitting": &l.Transmitting, "unacknowledged": &l.Unacknowledged, "completing": &l.Completing,
		}[k.state] += len(k.bufs)
	}
	for _, b := range m.kept {
		if !b.inPacket {
			l.Held++
		}
	}
	return l
}
