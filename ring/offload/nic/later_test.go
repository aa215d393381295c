package nic

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/host"
)

// With Interface.Later Add waits for nothing: the interface is lost until the job has opened it, and then the driver is told.
func TestOpenedLater(t *testing.T) {
	w := newWorld(t)
	r := w.ring(1)
	w.hold("open")
	require.NoError(t, r.a.Add(Interface{Name: "e0", Later: true}))
	require.Equal(t, Opening, r.state("e0"))
	require.Equal(t, "link.opening", r.a.Statuses()[0].Why.Code)
	require.Equal(t, e0, r.a.Statuses()[0].IfIndex)
	require.Len(t, r.targets, 1, "its flows are claimed")
	w.held("open")
	r.check()
	require.Zero(t, r.carrying())
	told := r.told
	w.pass("open")
	r.until("e0", Attached)
	require.Equal(t, 1, r.carrying())
	require.Empty(t, r.a.Statuses()[0].Why.Code)
	require.Greater(t, r.told, told)
	r.close()
}

// A call that may wait has the interface open when AwaitOpening returns, and the next Check tells the driver.
func TestAwaitOpening(t *testing.T) {
	w := newWorld(t)
	r := w.ring(1)
	w.hold("open")
	require.NoError(t, r.a.Add(Interface{Name: "e0", Later: true}))
	time.AfterFunc(10*time.Millisecond, func() { w.pass("open") })
	r.a.AwaitOpening("e0")
	require.Equal(t, Attached, r.state("e0"))
	require.Equal(t, 1, r.carrying())
	told := r.told
	require.True(t, r.a.HasEvents())
	r.check()
	require.Greater(t, r.told, told)
	r.a.AwaitOpening("e0") // nothing is under way
	r.close()
}

// An interface that cannot be opened yet stays attached, with the reason, and is tried again.
func TestOpenedLaterInVain(t *testing.T) {
	for _, test := range []struct {
		name         string
		spoil, amend func(w *world)
		code         string
	}{
		{"refused", func(w *world) { w.failing["e0"] = true }, func(w *world) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.failing["e0"] = false
		}, "link.detached"},
		{"down", func(w *world) { w.having("e0", func(l *host.Link) { l.Flags = 0 }) },
			func(w *world) { w.having("e0", func(l *host.Link) { l.Flags = unix.IFF_UP | unix.IFF_LOWER_UP }) }, "link.down"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			r := w.ring(1)
			test.spoil(w)
			require.NoError(t, r.a.Add(Interface{Name: "e0", Later: true}))
			r.until("e0", Closed)
			require.Equal(t, test.code, r.a.Statuses()[0].Why.Code)
			test.amend(w)
			r.until("e0", Attached)
			require.Equal(t, 1, r.carrying())
			r.close()
		})
	}
}

// A child of an interface that is being opened follows it; one that is unknown, or where nothing can be claimed, is not attached.
func TestOpenedLaterWithOthers(t *testing.T) {
	w := newWorld(t)
	r := w.ring(1)
	require.ErrorIs(t, r.a.Add(Interface{Name: "e0", On: "e7", Later: true}), unix.ENODEV)
	r.refuse = unix.ENOSPC
	require.ErrorIs(t, r.a.Add(Interface{Name: "e0", Later: true}), unix.ENOSPC)
	require.Empty(t, r.a.list)
	r.refuse = nil
	w.hold("open")
	require.NoError(t, r.a.Add(Interface{Name: "e0", Later: true}))
	require.NoError(t, r.a.Add(Interface{Name: "e0", On: "v0", VLAN: 5, Later: true}))
	require.Zero(t, r.carrying())
	w.held("open")
	w.pass("open")
	r.until("v0", Attached)
	require.Equal(t, 2, r.carrying())
	r.close()
}

// The members of a bond are opened by jobs, each as it can be.
func TestBondOpenedLater(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"e0", "e1"} {
		w.having(name, func(l *host.Link) { l.Master = b0 })
	}
	w.having("b0", func(l *host.Link) { l.BondMode, l.BondActive = host.BondActiveBackup, e0 })
	r := w.ring(1)
	w.failing["e1"] = true
	w.hold("open")
	require.NoError(t, r.a.Add(Interface{Name: "b0", Bond: true, Later: true}))
	require.Equal(t, "link.opening", r.a.Statuses()[0].Why.Code)
	require.Zero(t, r.carrying())
	w.held("open")
	w.pass("open")
	r.until("e0", Attached)
	require.Equal(t, 1, r.carrying())
	r.until("e1", Closed)
	w.mu.Lock()
	w.failing["e1"] = false
	w.mu.Unlock()
	r.until("e1", Attached)
	require.Equal(t, 2, r.carrying())
	r.close()
}
