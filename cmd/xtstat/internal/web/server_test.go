package web

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/stats"
)

// served is a server over a file that the test writes.
type served struct {
	*require.Assertions
	file   *stats.File
	server *Server
	http   *httptest.Server
}

func newServed(t *testing.T) *served {
	w := &served{Assertions: require.New(t)}
	var err error
	w.file, err = stats.Create(stats.Config{Directory: filepath.Join(t.TempDir(), "stats"), Sockets: 2 * socketsShown})
	w.NoError(err)
	r, err := stats.Open(w.file.Path())
	w.NoError(err)
	w.server, err = New(r, time.Second)
	w.NoError(err)
	ctx, cancel := context.WithCancel(t.Context())
	w.http = httptest.NewServer(w.server.Handler(ctx))
	t.Cleanup(func() {
		cancel()
		w.http.Close()
		require.NoError(t, r.Close())
		require.NoError(t, w.file.Close())
	})
	return w
}

// ask sends a request with a host, empty for the server's own, and returns the answer with its text.
func (w *served) ask(method, path, host string) (*http.Response, string) {
	q, err := http.NewRequest(method, w.http.URL+path, nil)
	w.NoError(err)
	if host != "" {
		q.Host = host
	}
	answer, err := (&http.Client{Timeout: 20 * time.Second}).Do(q)
	w.NoError(err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	w.NoError(err)
	return answer, string(text)
}

func TestListenOnLoopbackOnly(t *testing.T) {
	for _, good := range []string{"127.0.0.1:0", "[::1]:0", "127.8.9.10:0"} {
		l, err := Listen(good)
		if good == "[::1]:0" && err != nil {
			continue // no IPv6 here
		}
		require.NoError(t, err, good)
		require.NoError(t, l.Close())
	}
	for _, bad := range []string{"0.0.0.0:0", "[::]:0", "192.0.2.1:80", ":9470", "9470", "localhost:0", ""} {
		_, err := Listen(bad)
		require.ErrorContains(t, err, `"`+bad+`"`)
		require.ErrorContains(t, err, "loopback")
	}
}

// Each part of the page comes with headers that keep it from loading anything else.
func TestPage(t *testing.T) {
	w := newServed(t)
	for path := range files {
		answer, text := w.ask(http.MethodGet, strings.TrimSuffix(path, "{$}"), "")
		w.Equal(http.StatusOK, answer.StatusCode, path)
		w.NotEmpty(text)
		policy := answer.Header.Get("Content-Security-Policy")
		w.Contains(policy, "default-src 'none'")
		w.NotContains(policy, "unsafe")
		w.NotRegexp(`(src|href)="?(https?:)?//`, text, "another server")
		answer, text = w.ask(http.MethodHead, strings.TrimSuffix(path, "{$}"), "")
		w.Equal(http.StatusOK, answer.StatusCode)
		w.Empty(text)
	}
	answer, _ := w.ask(http.MethodGet, "/other", "")
	w.Equal(http.StatusNotFound, answer.StatusCode)
}

func TestReadOnly(t *testing.T) {
	w := newServed(t)
	for _, path := range []string{"/", "/updates", "/socket?fd=1", "/page.js"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions, "ZERO"} {
			answer, text := w.ask(method, path, "")
			w.Equal(http.StatusMethodNotAllowed, answer.StatusCode, "%s %s", method, path)
			w.Equal("GET, HEAD", answer.Header.Get("Allow"))
			w.Contains(text, "read-only")
		}
	}
}

// A site that has moved its name to a loopback address reads nothing.
func TestHostsOfOtherSites(t *testing.T) {
	w := newServed(t)
	for _, host := range []string{"evil.example", "evil.example:9470", "localhost.evil.example", "127.0.0.1.evil.example:80", "192.0.2.1:9470", "[2001:db8::1]:80",
		"evil.localhost"} {
		for _, path := range []string{"/", "/updates", "/socket?fd=1"} {
			answer, text := w.ask(http.MethodGet, path, host)
			w.Equal(http.StatusForbidden, answer.StatusCode, "%s %s", host, path)
			w.NotContains(text, "data:")
		}
	}
	for _, host := range []string{"localhost", "localhost:8080", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:9470", "[::1]:9470"} {
		answer, _ := w.ask(http.MethodGet, "/", host)
		w.Equal(http.StatusOK, answer.StatusCode, host)
	}
}

// stream opens the updates.
func (w *served) stream(query string) (*http.Response, *bufio.Reader) {
	answer, err := http.Get(w.http.URL + "/updates" + query)
	w.NoError(err)
	return answer, bufio.NewReader(answer.Body)
}

type shown struct {
	Process struct{ Pid int }
	Order   string
	More    int
	Sockets []struct {
		ID    uint64
		Drops uint64
	}
}

// next is the next update of a stream.
func (w *served) next(in *bufio.Reader) (x shown) {
	line, err := in.ReadString('\n')
	w.NoError(err)
	text, found := strings.CutPrefix(line, "data: ")
	w.True(found, line)
	w.NoError(json.Unmarshal([]byte(text), &x))
	empty, err := in.ReadString('\n')
	w.NoError(err)
	w.Equal("\n", empty)
	return x
}

// A stream begins with the model as it is, and has each update, with the first sockets in the order that was asked for.
func TestUpdates(t *testing.T) {
	w := newServed(t)
	drops, at := 0, 0
	for _, row := range stats.SectionOf(stats.Sockets).Counters {
		if row.Name == "drops" {
			drops = at
		}
		at += row.Words()
	}
	for i := range socketsShown + 5 {
		b := w.file.Open(stats.Sockets, nil, uint64(i+1))
		b.SetInfo("protocol=udp\nlocal=10.0.0.1:5000\n")
		if i == 77 {
			b.Counters()[drops] = 9
		}
	}
	answer, in := w.stream("?order=d")
	defer answer.Body.Close()
	w.Equal("text/event-stream", answer.Header.Get("Content-Type"))
	w.Empty(w.next(in).Sockets, "as New has read it")
	w.NoError(w.server.update())
	x := w.next(in)
	w.Equal("d", x.Order)
	w.Len(x.Sockets, socketsShown)
	w.Equal(5, x.More)
	w.Equal(uint64(78), x.Sockets[0].ID)
	w.Equal(uint64(9), x.Sockets[0].Drops)

	got, text := w.ask(http.MethodGet, "/socket?fd=78", "")
	w.Equal(http.StatusOK, got.StatusCode)
	w.Contains(text, "10.0.0.1:5000")
	for path, code := range map[string]int{"/socket?fd=999": http.StatusNotFound, "/socket": http.StatusBadRequest, "/socket?fd=x": http.StatusBadRequest,
		"/updates?order=x": http.StatusBadRequest, "/updates?order=pb": http.StatusBadRequest} {
		got, _ := w.ask(http.MethodGet, path, "")
		w.Equal(code, got.StatusCode, path)
	}
}

// There are only so many streams at a time; one that ends makes room.
func TestStreamsAreBounded(t *testing.T) {
	w := newServed(t)
	var open []*http.Response
	for range streamsMost {
		answer, in := w.stream("")
		w.NotZero(w.next(in).Process.Pid)
		open = append(open, answer)
	}
	answer, _ := w.ask(http.MethodGet, "/updates", "")
	w.Equal(http.StatusServiceUnavailable, answer.StatusCode)
	for _, x := range open {
		w.NoError(x.Body.Close())
	}
	w.Eventually(func() bool {
		w.NoError(w.server.update())
		answer, _ := w.stream("")
		defer answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	}, 20*time.Second, 10*time.Millisecond)
}
