package netconn

import (
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
)

// TestReadBehindWriteTo: the writer of a WriteTo may take for ever; a Read behind it obeys its deadline and Close.
func TestReadBehindWriteTo(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{})
		a, c := mixed(t, n)
		inside, leave := make(chan struct{}), make(chan struct{})
		copied := make(chan error, 1)
		go func() {
			_, err := a.WriteTo(writerFunc(func(b []byte) (int, error) {
				inside <- struct{}{}
				<-leave
				return len(b), nil
			}))
			copied <- err
		}()
		_, err := c.Write([]byte("x"))
		require.NoError(t, err)
		wait(t, inside)
		read := make(chan error, 2)
		reader := func() { read <- second(a.Read(make([]byte, 1))) }

		require.NoError(t, a.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
		go reader()
		go reader()
		require.ErrorIs(t, wait(t, read), os.ErrDeadlineExceeded)
		require.ErrorIs(t, wait(t, read), os.ErrDeadlineExceeded)

		require.NoError(t, a.SetReadDeadline(time.Time{}))
		go reader()
		time.Sleep(5 * time.Millisecond)
		require.NoError(t, a.SetReadDeadline(time.Unix(1, 0)), "one that waits already")
		require.ErrorIs(t, wait(t, read), os.ErrDeadlineExceeded)

		require.NoError(t, a.SetReadDeadline(time.Time{}))
		go reader()
		go func() { read <- second64(a.WriteTo(io.Discard)) }()
		time.Sleep(5 * time.Millisecond)
		require.NoError(t, a.Close())
		require.ErrorIs(t, wait(t, read), net.ErrClosed)
		require.ErrorIs(t, wait(t, read), net.ErrClosed)
		close(leave)
		require.ErrorIs(t, wait(t, copied), net.ErrClosed)
	})
}

func second64(_ int64, err error) error { return err }

// TestReadersTakeTurns: who waits behind another reader comes when that one is done, whichever it was.
func TestReadersTakeTurns(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{})
		a, c := mixed(t, n)
		const readers, each = 8, 200
		done := make(chan error, readers)
		for range readers {
			go func() {
				var err error
				for i := 0; i < each && err == nil; i++ {
					_, err = io.ReadFull(a, make([]byte, 1))
				}
				done <- err
			}()
		}
		for range readers * each {
			_, err := c.Write([]byte("x"))
			require.NoError(t, err)
		}
		for range readers {
			require.NoError(t, wait(t, done))
		}
	})
}

// TestPanicOfAWriter: what the caller's Write does in a WriteTo does not keep others from reading.
func TestPanicOfAWriter(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{})
		a, c := mixed(t, n)
		_, err := c.Write([]byte("x"))
		require.NoError(t, err)
		require.PanicsWithValue(t, "mine", func() {
			_, _ = a.WriteTo(writerFunc(func([]byte) (int, error) { panic("mine") }))
		})
		require.NoError(t, a.SetReadDeadline(time.Now().Add(patience)))
		_, err = io.ReadFull(a, make([]byte, 1)) // it was not written
		require.NoError(t, err)
	})
}
