package uring_test

import (
	"bytes"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
)

// A read ends before urgent data. What lies behind it is read as well, though nothing more comes.
func TestPolledConnectionReadsBeyondUrgentData(t *testing.T) {
	w := newWorld(t)
	s, peer := w.pair(ring.Config{LargeStream: true})
	raw, err := peer.SyscallConn()
	w.NoError(err)
	w.write(peer, []byte("before "))
	w.NoError(raw.Control(func(fd uintptr) { err = unix.Sendto(int(fd), []byte("!"), unix.MSG_OOB, nil) }))
	w.NoError(err)
	w.write(peer, []byte("after"))
	time.Sleep(time.Millisecond)
	w.Equal("before after", string(w.read(s, len("before after"))))
}

// A connection whose reading ends before it is empty, because the slice is short or the connection is suspended, is read on though nothing more
// comes; also after it has changed to small buffers and back.
func TestPolledConnectionIsReadToItsEnd(t *testing.T) {
	w := newWorld(t)
	s, peer := w.pair(ring.Config{LargeStream: true})
	data := make([]byte, 600_000)
	for i := range data {
		data[i] = byte(i >> 8)
	}
	go func() { _, _ = peer.Write(data) }()
	var got []byte
	for end := time.Now().Add(patience); len(got) < len(data); {
		w.True(time.Now().Before(end), "%d bytes of %d", len(got), len(data))
		n, err := s.Ring().Poll(w.dst[:1])
		w.NoError(err)
		if n == 0 {
			continue
		}
		got = append(got, w.dst[0].Packet.Bytes()...)
		w.NoError(w.dst[0].Packet.Release())
		switch k := len(got) >> 16; {
		case k%3 == 0:
			w.NoError(s.Suspend())
			w.poll()
			w.NoError(s.Resume())
		case k%3 == 1:
			w.NoError(s.SetLargeStream(k%2 == 0))
		}
		for _, c := range w.kept {
			got = append(got, c.Packet.Bytes()...)
			w.NoError(c.Packet.Release())
		}
		w.kept = w.kept[:0]
	}
	w.True(bytes.Equal(data, got))
}

// Data for a connection that is suspended ends one sleep, and no more.
func TestSuspendedPolledConnectionDoesNotWake(t *testing.T) {
	w := newWorld(t)
	s, peer := w.pair(ring.Config{LargeStream: true})
	for range 10 {
		w.poll()
	}
	w.NoError(s.Suspend())
	w.poll()
	woken := 0
	for range 10 {
		w.write(peer, []byte("x"))
		begin := time.Now()
		w.NoError(s.Ring().Wait(5 * time.Millisecond))
		if time.Since(begin) < 4*time.Millisecond {
			woken++
		}
		for range 3 {
			w.Zero(w.poll())
		}
	}
	w.LessOrEqual(woken, 2)
	w.NoError(s.Resume())
	w.Equal("xxxxxxxxxx", string(w.read(s, 10)))
}
