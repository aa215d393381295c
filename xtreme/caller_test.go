package xtreme_test

import (
	"testing"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/ringtest"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// ownerForAll are the methods of a poller that any goroutine may call, and why it may.
var ownerForAll = map[string]string{
	"Name":   "set when the poller is made",
	"Engine": "set when the poller is made",
	"Pool":   "set when the poller is made",
	"Rings":  "a list that is replaced, not changed",
	"Post":   "made for it",
	"Wake":   "made for it",
}

// Every method of a poller knows its caller: another goroutine gets ErrOwner, or the zero value where there is no error result.
func TestPollersMethodsKnowTheirCaller(t *testing.T) {
	for name, logic := range map[string]ring.Logic{"one ring": ring.PerInterface, "several rings": ring.PerSocket} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, kind conf.RingKind) {
				w := newWorld(t, kind, xtreme.PollerConfig{RingLogic: xtreme.Ptr(logic)})
				u := w.udp(loopback)
				w.udp(loopback)
				w.poll()
				peer := w.peer(u.LocalAddr())
				done := make(chan []string, 1)
				go func() {
					wrong, _ := ringtest.CallElsewhere(w.poller, ownerForAll)
					done <- wrong
				}()
				for {
					select {
					case wrong := <-done:
						w.Empty(wrong)
						return
					default:
						w.write(peer, "x")
						w.Equal("x", w.text(u))
					}
				}
			})
		})
	}
}

// A ring that its owner has not polled yet, beside one that it has, is not the first comer's.
func TestASocketOfALateRingKnowsItsCaller(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind, xtreme.PollerConfig{RingLogic: xtreme.Ptr(ring.PerSocket)})
		w.udp(loopback)
		w.poll()
		late := w.udp(loopback)
		elsewhere(func() {
			w.ErrorIs(late.SetTTL(3), ring.ErrOwner)
			_, err := late.SendTo([]byte("x"), late.LocalAddr())
			w.ErrorIs(err, ring.ErrOwner)
		})
	})
}
