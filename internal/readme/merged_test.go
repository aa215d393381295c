package readme

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// hold is put into package ring of the programs that TestServersOfMergedEnds builds. While the file $TEST_HOLD is there, it keeps what a new
// connection reports until its end comes, and gives the program one completion with all of it. It writes the events so far to $TEST_EVENTS.
const hold = `package ring

import (
	"os"
	"sync"
)

var held = struct {
	sync.Mutex
	of map[*Socket]*Completion
}{of: map[*Socket]*Completion{}}

func hold(done []Completion) (n int) {
	held.Lock()
	defer held.Unlock()
	for _, c := range done {
		h := held.of[c.Socket]
		if h == nil && c.Events.Has(EventNewConnection) {
			if _, err := os.Stat(os.Getenv("TEST_HOLD")); err == nil {
				h = &Completion{}
				*h = c
				held.of[c.Socket] = h
				c = Completion{Socket: c.Socket}
			}
		}
		if h == nil {
			done[n] = c
			n++
			continue
		}
		if c.Events.Has(EventPacket) {
			if !h.Packet.IsZero() {
				panic("a held connection has a second packet")
			}
			h.Packet = c.Packet
		}
		h.Events |= c.Events
		if h.Err == nil {
			h.Err = c.Err
		}
		f, err := os.OpenFile(os.Getenv("TEST_EVENTS"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			panic(err)
		}
		if _, err := f.WriteString(h.Events.String() + "\n"); err != nil {
			panic(err)
		}
		f.Close()
		if h.Events.Any(EventRdHup | EventHup) {
			done[n] = *h
			n++
			delete(held.of, c.Socket)
		}
	}
	return n
}
`

// buildHolding compiles the README's program and the examples that accept connections, with hold in their package ring, into a folder.
func buildHolding(t *testing.T) (folder string) {
	testnet.NeedProgram(t, "go")
	dir := t.TempDir()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	poll, err := os.ReadFile("../../ring/ring.go")
	require.NoError(t, err)
	const result = "\n\tn := k.n\n\tk.dst = nil\n"
	require.Equal(t, 1, bytes.Count(poll, []byte(result)), "what Poll returns")
	poll = bytes.Replace(poll, []byte(result), []byte("\n\tn := hold(k.dst[:k.n])\n\tk.dst = nil\n"), 1)
	code := program(t)
	for old, changed := range map[string]string{`"` + address + `"`: "os.Args[1]", "\t\"net/netip\"\n": "\t\"net/netip\"\n\t\"os\"\n"} {
		require.Equal(t, 1, strings.Count(code, old), "%s in the README's program", old)
		code = strings.Replace(code, old, changed, 1)
	}
	overlay := map[string]string{}
	for path, text := range map[string]string{"ring/ring.go": string(poll), "ring/hold.go": hold,
		"examples/readme/main.go": code} {
		copied := filepath.Join(dir, strings.ReplaceAll(path, "/", "-"))
		require.NoError(t, os.WriteFile(copied, []byte(text), 0o600))
		overlay[filepath.Join(root, path)] = copied
	}
	text, err := json.Marshal(map[string]any{"Replace": overlay})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), text, 0o600))
	args := []string{"build", "-ldflags=-s -w", "-overlay", filepath.Join(dir, "overlay.json"), "-o", dir + "/"}
	for name := range accepting {
		args = append(args, "./examples/"+name)
	}
	c := exec.Command("go", args...)
	c.Dir = root
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return dir
}

// accepting are the programs that accept connections: their arguments, what a client sends them, how the answer begins, and what shows
// afterwards that they still serve.
var accepting = map[string]struct {
	args           func(t *testing.T, at string) []string
	data, answered string
	event          string // that reports the data; none where a callback takes it before
	serves         func(t *testing.T, at string)
}{
	"readme": {func(_ *testing.T, at string) []string { return []string{at} }, "hello", "hello", "PACKET", answers("hello", "hello")},
	"echo": {func(_ *testing.T, at string) []string { return []string{"-listen", at, "-proto", "tcp"} }, "hello", "hello", "PACKET",
		answers("hello", "hello")},
	"framed": {func(_ *testing.T, at string) []string { return []string{"-listen", "tcp://" + at, "-multicore=false"} },
		"\x00\x00\x00\x05hello", "\x00\x00\x00\x05hello", "PACKET", answers("\x00\x00\x00\x00", "\x00\x00\x00\x00")},
	"resp": {func(_ *testing.T, at string) []string { return []string{"-listen", at} }, "PING\r\n", "+PONG\r\n", "PACKET",
		answers("PING\r\n", "+PONG\r\n")},
	"proxy": {func(t *testing.T, at string) []string { return []string{"-listen", at, "-to", backend(t)} }, "hello", "", "PACKET",
		answers("hello", "hello")},
	"https": {func(_ *testing.T, at string) []string { return []string{"-listen", at} }, clientHello(), "\x16\x03\x03", "", servesTLS},
}

// answers shows that a server answers.
func answers(request, answer string) func(*testing.T, string) {
	return func(t *testing.T, at string) {
		c := dialed(t, at)
		_, err := c.Write([]byte(request))
		require.NoError(t, err)
		b := make([]byte, len(answer))
		_, err = io.ReadFull(c, b)
		require.NoError(t, err)
		require.Equal(t, answer, string(b))
		require.NoError(t, c.Close())
	}
}

// servesTLS is answers with requests over TLS: a whole one, and clients that end once the handshake is done, with FIN, or with RST.
func servesTLS(t *testing.T, at string) {
	config := &tls.Config{InsecureSkipVerify: true}
	client := &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	answer, err := client.Get("https://" + at + "/hello")
	require.NoError(t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, "hello over HTTP/1.1\n", string(text))
	for _, reset := range []bool{false, true} {
		c := dialed(t, at)
		require.NoError(t, tls.Client(c, config).Handshake())
		if reset {
			require.NoError(t, c.SetLinger(0))
		}
		require.NoError(t, c.Close())
	}
}

// backend is where the proxy connects to: an echo server.
func backend(t *testing.T) string {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	return l.Addr().String()
}

// firstWrite is a connection that keeps what is written first.
type firstWrite struct {
	net.Conn
	text []byte
}

func (f *firstWrite) Write(b []byte) (int, error) {
	f.text = bytes.Clone(b)
	return 0, io.ErrClosedPipe
}

// clientHello is what a client of TLS sends first.
func clientHello() string {
	var f firstWrite
	_ = tls.Client(&f, &tls.Config{InsecureSkipVerify: true}).Handshake() // ends with the error of firstWrite
	return string(f.text)
}

func dialed(t *testing.T, at string) *net.TCPConn {
	c, err := net.Dial("tcp4", at)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	return c.(*net.TCPConn)
}

// eventsOf counts the lines of the file that hold writes, and those with all of some events.
func eventsOf(t *testing.T, path string, all ...string) (lines, with int) {
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		lines++
		found := true
		for _, e := range all {
			found = found && strings.Contains("|"+strings.TrimSpace(line)+"|", "|"+e+"|")
		}
		if found {
			with++
		}
	}
	return lines, with
}

// Each program that accepts connections gets NEW_CONNECTION, the packet and the end of a connection in one completion. It answers where the
// client still reads, closes the connection, keeps no socket, and serves on.
func TestServersOfMergedEnds(t *testing.T) {
	const n = 5
	folder := buildHolding(t)
	onRings(t, func(t *testing.T, kind string) {
		for name, p := range accepting {
			t.Run(name, func(t *testing.T) {
				at := freeAddress(t)
				holding, events := filepath.Join(t.TempDir(), "hold"), filepath.Join(t.TempDir(), "events")
				for _, path := range []string{holding, events} {
					require.NoError(t, os.WriteFile(path, nil, 0o600))
				}
				t.Setenv("TEST_HOLD", holding)
				t.Setenv("TEST_EVENTS", events)
				s := start(t, filepath.Join(folder, name), at, kind, p.args(t, at)...)
				require.NoError(t, os.Remove(holding))
				require.NoError(t, s.listens().Close())
				p.serves(t, at)
				idle := s.idleSockets()
				s.settles(t, idle)
				require.NoError(t, os.WriteFile(holding, nil, 0o600))

				// one opens a connection, sends data, waits until the server has it, and ends; the completion that is merged has these events.
				one := func(data string, end func(*net.TCPConn), merged ...string) {
					t.Helper()
					merged = append(merged, "NEW_CONNECTION")
					reported := data != "" && p.event != ""
					if reported {
						merged = append(merged, p.event)
					}
					_, before := eventsOf(t, events, merged...)
					_, packets := eventsOf(t, events, "NEW_CONNECTION", p.event)
					c := dialed(t, at)
					if data != "" {
						_, err := c.Write([]byte(data))
						require.NoError(t, err)
					}
					if reported { // before a reset makes the kernel forget it
						require.Eventually(t, func() bool { _, now := eventsOf(t, events, "NEW_CONNECTION", p.event); return now > packets },
							patience, time.Millisecond, "the packet is not held")
					}
					end(c)
					require.Eventually(t, func() bool { _, now := eventsOf(t, events, merged...); return now == before+1 },
						patience, time.Millisecond, "no completion with %v", merged)
				}
				closed := func(c *net.TCPConn) { require.NoError(t, c.Close()) }
				reset := func(c *net.TCPConn) { require.NoError(t, c.SetLinger(0)); closed(c) }
				var reads []*net.TCPConn
				half := func(c *net.TCPConn) { require.NoError(t, c.CloseWrite()); reads = append(reads, c) }
				for range n {
					one("", closed, "RDHUP")
					one("", reset, "HUP")
					one(p.data[:1], closed, "RDHUP")
					one(p.data[:1], reset, "HUP")
					one(p.data, closed, "RDHUP")
					one(p.data, reset, "HUP")
					one(p.data, half, "RDHUP")
				}
				for _, c := range reads {
					require.NoError(t, c.SetReadDeadline(time.Now().Add(patience/6))) // see settles
					b, err := io.ReadAll(c)
					require.NoError(t, err)
					if p.answered == "" {
						require.Empty(t, b)
					}
					require.True(t, strings.HasPrefix(string(b), p.answered), "answered %q", b)
				}
				s.settles(t, idle)
				require.NoError(t, os.Remove(holding))
				p.serves(t, at)
				s.settles(t, idle)
			})
		}
	})
}
