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
