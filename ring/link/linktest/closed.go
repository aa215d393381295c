// Package linktest has what every kind of link must do, as tests. The tests of the packages that implement link.Link use it.
package linktest

import (
	"reflect"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// Closed calls every method of a link that is closed. None may touch what Close has freed: memory, descriptors, buffers. frame makes a packet
// for Send, transmitting; Closed ends it.
func Closed(t *testing.T, l link.Link, pool *buffers.DriverPool, frame func() buffers.Packet) {
	t.Helper()
	before := pool.Ledger()
	calls := map[string]func(*require.Assertions){
		"Info":     func(r *require.Assertions) { l.Info() },
		"Caps":     func(r *require.Assertions) { l.Caps() },
		"Why":      func(r *require.Assertions) { l.Why(link.CapZeroCopy) },
		"Path":     func(r *require.Assertions) { l.Path() },
		"Stats":    func(r *require.Assertions) { r.Equal(l.Stats(), l.Stats()) },
		"Counters": func(r *require.Assertions) { r.Equal(l.Counters(nil), l.Counters(nil)) },
		"Receive":  func(r *require.Assertions) { r.Zero(l.Receive(make([]link.Frame, 8))) },
		"Send": func(r *require.Assertions) {
			p := frame()
			r.Zero(l.Send([]link.Out{{Packet: p}}))
			pool.FreeTransmit(p)
		},
		"Flush":    func(r *require.Assertions) { r.ErrorIs(l.Flush(), link.ErrClosed) },
		"Complete": func(r *require.Assertions) { r.Zero(l.Complete(make([]link.Done, 8))) },
		"Unsent":   func(r *require.Assertions) { r.Zero(l.Unsent()) },
		"Pending":  func(r *require.Assertions) { r.False(l.Pending()) },
		"FD":       func(r *require.Assertions) { r.Equal(-1, l.FD(), "the number may be another descriptor's by now") },
		"Arm":      func(r *require.Assertions) { r.False(l.Arm(), "Receive would find nothing") },
		"Disarm":   func(r *require.Assertions) { l.Disarm() },
		"Check":    func(r *require.Assertions) { r.ErrorIs(l.Check(), link.ErrClosed) },
		"Close":    func(r *require.Assertions) { r.ErrorIs(l.Close(), link.ErrClosed) },
	}
	methods := reflect.TypeFor[link.Link]()
	require.Equal(t, methods.NumMethod(), len(calls), "methods of link.Link")
	for i := range methods.NumMethod() {
		name := methods.Method(i).Name
		t.Run("closed/"+name, func(t *testing.T) {
			require.Contains(t, calls, name)
			defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
			defer func() { require.Nil(t, recover(), "%s of a closed link reads memory that is no longer mapped", name) }()
			calls[name](require.New(t))
			require.Equal(t, before, pool.Ledger())
		})
	}
}
