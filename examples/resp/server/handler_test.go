package server

import (
	"io"
	"net"
	"strings"
	"testing"

	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/require"
)

// fakeConn is as much of a gnet.Conn as the handler uses: anything else would panic.
type fakeConn struct {
	gnet.Conn
	in      []byte
	out     []byte
	writes  int
	waiting int // said by OutboundBuffered; Write does not add to it
	context any
	fail    error // of Write
}

func (c *fakeConn) OutboundBuffered() int      { return c.waiting }
func (c *fakeConn) InboundBuffered() int       { return len(c.in) }
func (c *fakeConn) Context() any               { return c.context }
func (c *fakeConn) SetContext(v any)           { c.context = v }
func (c *fakeConn) EventLoop() gnet.EventLoop  { return nil }
func (c *fakeConn) RemoteAddr() net.Addr       { return nil }
func (c *fakeConn) Peek(int) ([]byte, error)   { return c.in, nil }
func (c *fakeConn) Discard(n int) (int, error) { c.in = c.in[n:]; return n, nil }

func (c *fakeConn) Write(b []byte) (int, error) {
	c.writes++
	c.out = append(c.out, b...)
	return len(b), c.fail
}

func open(h *Handler) *fakeConn {
	c := &fakeConn{}
	h.OnOpen(c)
	return c
}

func TestHandlerAnswersAPipelineWithOneWrite(t *testing.T) {
	h := NewHandler(New(Config{}))
	c := open(h)
	c.in = []byte("*1\r\n$4\r\nPING\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1\r\nx\r\n*1\r\n$4\r\nPI")
	require.Equal(t, gnet.None, h.OnTraffic(c))
	require.Equal(t, "+PONG\r\n+PONG\r\n$-1\r\n", string(c.out))
	require.Equal(t, 1, c.writes)
	require.Equal(t, "*1\r\n$4\r\nPI", string(c.in), "what is not whole stays")
	c.in = append(c.in, "NG\r\n"...)
	require.Equal(t, gnet.None, h.OnTraffic(c))
	require.Equal(t, 2, c.writes)
	require.Empty(t, c.in)
}

func TestHandlerClosesAfterItsAnswer(t *testing.T) {
	for in, want := range map[string]string{
		"QUIT\r\nPING\r\n":  "+OK\r\n",
		"*1\r\n!4\r\nPING":  "-ERR Protocol error: expected '$', got '!'\r\n",
		"PING\r\n*x\r\nSET": "+PONG\r\n-ERR Protocol error: invalid multibulk length\r\n",
	} {
		h := NewHandler(New(Config{}))
		c := open(h)
		c.in = []byte(in)
		require.Equal(t, gnet.Close, h.OnTraffic(c), in)
		require.Equal(t, want, string(c.out))
		h.OnClose(c, nil)
		require.Empty(t, h.server.sessions)
		h.OnClose(c, nil) // once more is nothing
	}
}

func TestHandlerClosesWhenItCannotWrite(t *testing.T) {
	h := NewHandler(New(Config{}))
	c := open(h)
	c.in, c.fail = []byte("PING\r\n"), io.ErrClosedPipe
	require.Equal(t, gnet.Close, h.OnTraffic(c))
}

// Many large values asked for at once leave in parts, in order, and their memory is given back.
func TestHandlerSendsMuchInParts(t *testing.T) {
	h := NewHandler(New(Config{}))
	c := open(h)
	value := make([]byte, 300<<10)
	for i := range value {
		value[i] = byte(i)
	}
	h.server.dbs[0].GetOrAdd([]byte("k")).SetValue(value)
	for range 20 {
		c.in = append(c.in, "GET k\r\n"...)
	}
	require.Equal(t, gnet.None, h.OnTraffic(c))
	require.Empty(t, c.in)
	require.Equal(t, 5, c.writes, "four values are more than a MiB")
	require.Len(t, c.out, 20*(len(value)+len("$307200\r\n\r\n")))
	require.LessOrEqual(t, cap(h.out), keptAnswers)
}

func TestAClientThatDoesNotReadWaits(t *testing.T) {
	h := NewHandler(New(Config{}))
	c := open(h)
	c.in, c.waiting = []byte("PING\r\n"), 1000
	require.Equal(t, gnet.None, h.OnTraffic(c))
	require.Equal(t, "+PONG\r\n", string(c.out), "nobody set a limit")
	h.LimitWaiting(999)
	c.in = []byte("PING\r\n")
	require.Equal(t, gnet.None, h.OnTraffic(c))
	require.Equal(t, "PING\r\n", string(c.in))
	c.waiting = 999
	require.Equal(t, gnet.None, h.OnTraffic(c))
	require.Empty(t, c.in)
	require.Equal(t, 2, c.writes)
}

func TestKnownKeysCostNoAllocation(t *testing.T) {
	h := NewHandler(New(Config{}))
	c := open(h)
	set := []byte("*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nhello\r\n")
	c.in = set
	require.Equal(t, gnet.None, h.OnTraffic(c))
	for name, in := range map[string]string{
		"GET":           "*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n",
		"get":           "*2\r\n$3\r\nget\r\n$3\r\nkey\r\n",
		"inline":        "get key\r\n",
		"missing":       "*2\r\n$3\r\nGET\r\n$3\r\nkez\r\n",
		"SET":           string(set),
		"INCR":          "*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n",
		"four in a row": string(set) + string(set) + "*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n",
	} {
		bytes := []byte(in)
		require.Zero(t, testing.AllocsPerRun(200, func() {
			c.in, c.out = bytes, c.out[:0]
			if h.OnTraffic(c) != gnet.None || len(c.in) != 0 {
				panic(name)
			}
		}), name)
	}
}

func TestTickBeforeTheFirstClient(t *testing.T) {
	h := NewHandler(New(Config{}))
	delay, action := h.OnTick()
	require.Equal(t, sweepEvery, delay)
	require.Equal(t, gnet.None, action)
}

// What a command costs apart from the network: sixteen of them in one read, divided by sixteen.
func BenchmarkCommands(b *testing.B) {
	for _, c := range []struct{ name, command string }{
		{"GET", "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000001\r\n"},
		{"SET", "*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000001\r\n$64\r\n" + strings.Repeat("v", 64) + "\r\n"},
	} {
		b.Run(c.name, func(b *testing.B) {
			h := NewHandler(New(Config{}))
			conn := open(h)
			h.server.dbs[0].GetOrAdd([]byte("key:000000000001")).SetValue(make([]byte, 64))
			in := []byte(strings.Repeat(c.command, 16))
			b.ReportAllocs()
			for b.Loop() {
				conn.in, conn.out = in, conn.out[:0]
				h.OnTraffic(conn)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(16*b.N), "ns/command")
		})
	}
}
