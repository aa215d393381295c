package xtreme_test

import (
	"errors"
	"io"
	"testing"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// The end of a stream is behind the packets that wait for a suspended callback: Receive does not tell of it before they were taken.
func TestEndBehindASuspendedCallback(t *testing.T) {
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		const size = 20_000
		w := newWorld(t, kind)
		seen := 0
		var conn *xtreme.Socket
		l := w.listen(xtreme.ListenConfig{SocketConfig: xtreme.SocketConfig{ReceiveMode: xtreme.ModeCallback,
			ReceiveCallback: func(s *xtreme.Socket, c *xtreme.Completion) xtreme.Verdict {
				if seen == 0 {
					conn = s
					w.NoError(s.Suspend())
				}
				seen += c.Packet.Len()
				return xtreme.Keep
			}}})
		peer := w.dial(l.LocalAddr())
		_, err := peer.Write(make([]byte, size))
		w.NoError(err)
		w.NoError(peer.Close())
		w.until("the callback", func() bool { return conn != nil })
		for range 2_000 { // the rest, with its end
			w.poll()
		}
		got := 0
		receive := func() (err error) {
			dst := make([]xtreme.Completion, 8)
			for n := 0; err == nil; {
				if n, err = conn.Receive(dst); err == nil {
					for i := range dst[:n] {
						got += dst[i].Packet.Len()
						w.NoError(dst[i].Packet.Release())
					}
				}
			}
			return err
		}
		w.ErrorIs(receive(), ring.ErrNothing)
		w.Less(got, size)
		_, _, err = conn.Read(make([]byte, 8))
		w.ErrorIs(err, ring.ErrNothing)
		w.NoError(conn.Resume())
		w.until("the end", func() bool { return errors.Is(receive(), io.EOF) })
		w.Equal(size, got)
		w.Equal(size, seen)
	})
}
