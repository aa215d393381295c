package testnet

import (
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// ending notes how a test ended.
type ending struct {
	testing.TB
	skipped, failed bool
}

func (e *ending) Helper()               {}
func (e *ending) Skipf(string, ...any)  { e.skipped = true; runtime.Goexit() }
func (e *ending) Fatalf(string, ...any) { e.failed = true; runtime.Goexit() }

func TestMissing(t *testing.T) {
	for list, fails := range map[string]bool{"": false, "uring": true, "epoll,uring": true, "epoll": false, "uring2": false} {
		t.Setenv(RequireVariable, list)
		e := &ending{TB: t}
		done := make(chan bool)
		go func() {
			defer close(done)
			Missing(e, "uring", errors.New("disabled"))
		}()
		<-done
		require.Equal(t, fails, e.failed, list)
		require.Equal(t, !fails, e.skipped, list)
	}
}
