package gnet_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// A deadline that a handler sets after it has worked for a while is not over before its time: the loop's clock is that of the turn's beginning.
func TestDeadlineOfAHandlerThatWorkedIsNotEarly(t *testing.T) {
	const worked, left = 200 * time.Millisecond, 250 * time.Millisecond
	rings(t, func(t *testing.T, ring gnet.Option) {
		var deadline time.Time
		type end struct {
			at, deadline time.Time
			err          error
		}
		ended := make(chan end, 1)
		h := &handler{traffic: func(c gnet.Conn) gnet.Action {
			time.Sleep(worked)
			deadline = time.Now().Add(left)
			_ = c.SetReadDeadline(deadline)
			return gnet.None
		}, close: func(_ gnet.Conn, err error) gnet.Action {
			ended <- end{time.Now(), deadline, err}
			return gnet.None
		}}
		c := serve(t, h, loopback, ring).dial(t)
		_, err := c.Write([]byte("x"))
		require.NoError(t, err)
		e := within(t, ended, "OnClose")
		require.ErrorIs(t, e.err, os.ErrDeadlineExceeded)
		require.False(t, e.at.Before(e.deadline), "closed %v before its deadline", e.deadline.Sub(e.at))
	})
}

// A handler that works for longer than the idle timeout, and then writes or sets the timeout, has its connection open for that time from then
// on.
func TestIdleTimeoutOfAHandlerThatWorkedIsNotEarly(t *testing.T) {
	const worked, idle = 400 * time.Millisecond, 300 * time.Millisecond
	for name, act := range map[string]func(gnet.Conn) error{
		"Write":          func(c gnet.Conn) error { _, err := c.Write([]byte("y")); return err },
		"Writev":         func(c gnet.Conn) error { _, err := c.Writev([][]byte{[]byte("y"), []byte("z")}); return err },
		"SetIdleTimeout": func(c gnet.Conn) error { return c.(gnet.ConnX).SetIdleTimeout(idle) },
	} {
		t.Run(name, func(t *testing.T) {
			rings(t, func(t *testing.T, ring gnet.Option) {
				var acted time.Time
				open := make(chan time.Duration, 1)
				h := &handler{traffic: func(c gnet.Conn) gnet.Action {
					time.Sleep(worked)
					acted = time.Now()
					require.NoError(t, act(c))
					return gnet.None
				}, close: func(gnet.Conn, error) gnet.Action {
					open <- time.Since(acted)
					return gnet.None
				}}
				c := serve(t, h, loopback, ring, gnet.WithIdleTimeout(idle)).dial(t)
				_, err := c.Write([]byte("x"))
				require.NoError(t, err)
				require.GreaterOrEqual(t, within(t, open, "OnClose"), idle)
			})
		})
	}
}
