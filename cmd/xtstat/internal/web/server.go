package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/socketxtreme/socketxtreme/cmd/xtstat/internal/live"
	"github.com/socketxtreme/socketxtreme/stats"
)

const (
	socketsShown = 200 // rows of the table of sockets that a browser gets
	streamsMost  = 16  // browsers that are served at a time
	writeTimeout = 10 * time.Second
)

// Listen listens on a loopback address, "127.0.0.1:9470" or "[::1]:9470"; port 0 takes a free one. Another address is refused: the page has no
// password.
func Listen(address string) (net.Listener, error) {
	a, err := netip.ParseAddrPort(address)
	switch {
	case err != nil:
		return nil, fmt.Errorf("address %q: want a loopback address and a port, 127.0.0.1:9470", address)
	case !a.Addr().IsLoopback():
		return nil, fmt.Errorf("address %q is not a loopback address: the page has no password; from another machine use ssh -L 9470:127.0.0.1:9470", address)
	}
	return net.Listen("tcp", a.String())
}

// Server serves a process. Any goroutine.
type Server struct {
	reader   *stats.Reader
	interval time.Duration
	streams  chan struct{} // has a token for each browser that is served

	mu      sync.Mutex
	model   live.Model
	changed chan struct{} // closed by the next update
}

// New makes a server for the process of a file, which the caller keeps open. Run updates what it serves.
func New(r *stats.Reader, interval time.Duration) (*Server, error) {
	s := &Server{reader: r, interval: interval, streams: make(chan struct{}, streamsMost), changed: make(chan struct{})}
	return s, s.model.Update(r, time.Now())
}

// Process is the number of the process.
func (s *Server) Process() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.model.Process.ID
}

// Run updates the model until ctx ends. When the process ends, what it did last stays.
func (s *Server) Run(ctx context.Context) error {
	tick := time.NewTicker(s.interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := s.update(); err != nil {
				return err
			}
		}
	}
}

// update reads the file and wakes the streams.
func (s *Server) update() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.model.Update(s.reader, time.Now())
	close(s.changed)
	s.changed = make(chan struct{})
	return err
}

// Handler returns the handler of all requests. Streams end with ctx.
func (s *Server) Handler(ctx context.Context) http.Handler {
	mux := http.NewServeMux()
	for path, f := range files {
		mux.HandleFunc(path, f.serve)
	}
	mux.HandleFunc("/updates", func(w http.ResponseWriter, r *http.Request) { s.stream(ctx, w, r) })
	mux.HandleFunc("/socket", s.socket)
	return guard(mux)
}

// guard refuses what could change something or comes from another site, and sets the headers of all answers.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "+
			"base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		switch {
		case !isLoopbackHost(r.Host):
			http.Error(w, fmt.Sprintf("host %q: xtstat web answers to loopback addresses and localhost only", r.Host), http.StatusForbidden)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "method "+r.Method+": xtstat web is read-only", http.StatusMethodNotAllowed)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// isLoopbackHost reports whether a Host header names a loopback address or localhost, with any port: a tunnel may have another one.
func isLoopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

// update is what a browser gets: the model, with the first sockets in its order.
type update struct {
	*live.Model
	Order   string        `json:"order"`
	Sockets []live.Socket `json:"sockets"`
	More    int           `json:"more"`    // sockets that are not in Sockets
	Seconds float64       `json:"seconds"` // between two updates
}

// stream sends the model at once, and after each update. The query's order is the key of the order of sockets.
func (s *Server) stream(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	order := live.ByPackets
	if text := r.URL.Query().Get("order"); text != "" {
		if len(text) != 1 || !strings.Contains(live.Orders, text) {
			http.Error(w, fmt.Sprintf("order %q: want one of %s", text, live.Orders), http.StatusBadRequest)
			return
		}
		order = live.Order(text[0])
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		http.Error(w, fmt.Sprintf("%d browsers are served already", streamsMost), http.StatusServiceUnavailable)
		return
	}
	out := http.NewResponseController(w)
	for {
		text, changed, err := s.encode(order)
		if err == nil {
			err = errors.Join(out.SetWriteDeadline(time.Now().Add(writeTimeout)), send(w, text), out.Flush())
		}
		if err != nil {
			return // the browser is gone
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// send writes one event.
func send(w http.ResponseWriter, text []byte) error {
	_, err := fmt.Fprintf(w, "data: %s\n\n", text)
	return err
}

// encode is the model as JSON, and what is closed when it is updated.
func (s *Server) encode(order live.Order) ([]byte, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.model.Sort(order)
	shown := min(len(s.model.Sockets), socketsShown)
	text, err := json.Marshal(update{Model: &s.model, Order: string(order), Sockets: s.model.Sockets[:shown], More: len(s.model.Sockets) - shown,
		Seconds: s.interval.Seconds()})
	return text, s.changed, err
}

// socket answers with a socket, by its fd.
func (s *Server) socket(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseUint(r.URL.Query().Get("fd"), 10, 64)
	if err != nil {
		http.Error(w, fmt.Sprintf("fd %q: want a number", r.URL.Query().Get("fd")), http.StatusBadRequest)
		return
	}
	text, found := s.socketText(id)
	if !found {
		http.Error(w, fmt.Sprintf("the process has no published socket %d", id), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(text)) // a browser that is gone needs none
}

func (s *Server) socketText(id uint64) (text string, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.model.Sockets {
		if x := &s.model.Sockets[i]; x.ID == id {
			return x.Text(), true
		}
	}
	return "", false
}
