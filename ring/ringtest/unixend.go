package ringtest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/socketxtreme/socketxtreme/ring"
)

// unixEndWithData: the peer sends and closes while the ring reads. A multishot receive of Linux 6.18 can miss the end: it reads the last
// data, believes the kernel that the queue is empty, and waits for a wake-up that has already been.
func unixEndWithData(t *testing.T, b Backend) {
	w := newWorld(t, b)
	name := fmt.Sprintf("@ringtest end %s %d", b.Name, os.Getpid())
	l := w.listenUnix(name)
	for i := range 200 {
		peer := w.dialUnix(name)
		s := w.accept(l).Socket
		if i%2 == 0 {
			w.write(peer, []byte("first")) // the receive is armed and has been at work
			w.Equal("first", string(w.read(s, 5)))
		}
		if i%7 > 3 {
			w.NoError(s.Suspend()) // a watched connection that is not read stays watched
			w.poll()
			w.NoError(s.Resume())
		}
		for range i % 3 {
			w.poll()
		}
		w.write(peer, []byte("last words"))
		if i%4 < 2 {
			w.NoError(peer.CloseWrite())
		} else {
			w.NoError(peer.Close())
		}
		if i%5 == 0 {
			time.Sleep(time.Millisecond)
		}
		w.Equal("last words", string(w.read(s, 10)))
		w.event(s, ring.EventIn|ring.EventRdHup, nil)
		w.closeAndWait(s)
		_ = peer.Close()
	}
	for range 3 { // more than one attempt of the kernel reads, all there before
		peer := w.dialUnix(name)
		s := w.accept(l).Socket
		w.NoError(s.Suspend())
		w.poll()
		text := make([]byte, 120_000)
		w.write(peer, text)
		w.NoError(peer.CloseWrite())
		w.NoError(s.Resume())
		w.Len(w.read(s, len(text)), len(text))
		w.event(s, ring.EventIn|ring.EventRdHup, nil)
		w.closeAndWait(s)
		_ = peer.Close()
	}
	for range 3 { // TCP, for comparison
		s, peer := w.pair()
		w.NoError(s.Suspend())
		w.poll()
		text := make([]byte, 120_000)
		w.write(peer, text)
		w.NoError(peer.CloseWrite())
		w.NoError(s.Resume())
		w.Len(w.read(s, len(text)), len(text))
		w.event(s, ring.EventIn|ring.EventRdHup, nil)
		w.closeAndWait(s)
	}
	for i := range 50 { // and at the end of much, written while it is read
		peer := w.dialUnix(name)
		s := w.accept(l).Socket
		text := make([]byte, 300_000)
		wrote := make(chan error, 1)
		go func() {
			for n := 0; n < len(text); {
				k, err := peer.Write(text[n:min(n+1+i*500, len(text))])
				if n += k; err != nil {
					wrote <- err
					return
				}
			}
			wrote <- peer.CloseWrite()
		}()
		w.Len(w.read(s, len(text)), len(text))
		w.NoError(<-wrote)
		w.event(s, ring.EventIn|ring.EventRdHup, nil)
		w.closeAndWait(s)
		_ = peer.Close()
	}
}
