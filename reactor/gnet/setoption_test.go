package gnet

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2/pkg/logging"
	"github.com/stretchr/testify/require"
)

// warnings is a Logger that keeps its warnings.
type warnings struct {
	logging.Logger
	list chan string
}

func (w *warnings) Warnf(format string, args ...any) { w.list <- fmt.Sprintf(format, args...) }

// optionServer reports its engine and the connections that it opened.
type optionServer struct {
	BuiltinEventEngine
	engine chan Engine
	opened chan *conn
}

func (h *optionServer) OnBoot(e Engine) Action { h.engine <- e; return None }

func (h *optionServer) OnOpen(c Conn) ([]byte, Action) {
	c.(*conn).onStack = true // options of such a connection are set on the loop
	h.opened <- c.(*conn)
	return nil, None
}

// An option that another goroutine sets on a connection of our own stack is set later, on the loop: there is no caller for its error, so it is
// logged.
func TestErrorOfAnOptionSetOnTheLoopIsLogged(t *testing.T) {
	log := &warnings{logging.GetDefaultLogger(), make(chan string, 16)}
	h := &optionServer{engine: make(chan Engine, 1), opened: make(chan *conn, 1)}
	result := make(chan error, 1)
	go func() { result <- Run(h, "tcp://127.0.0.1:0", WithLogger(log)) }()
	e := <-h.engine
	client, err := net.Dial("tcp", e.Addrs()[0].String())
	require.NoError(t, err)
	defer client.Close()
	c := <-h.opened
	require.NoError(t, c.SetReadBuffer(-1), "it is not waited for")
	for end := time.After(10 * time.Second); ; {
		select {
		case text := <-log.list:
			if !strings.HasPrefix(text, "connection from "+client.LocalAddr().String()) {
				continue
			}
		case <-end:
			t.Error("the error is not in the log")
		}
		break
	}
	require.NoError(t, e.Stop(t.Context()))
	require.NoError(t, <-result)
}
