package replay

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/socketxtreme/socketxtreme/examples/feedhandler/handler"
	"github.com/socketxtreme/socketxtreme/feed/iextp"
	"github.com/socketxtreme/socketxtreme/feed/moldudp64"
)

// Mode is how a recovery server behaves.
type Mode string

// The modes. Neither IEX-TP over UDP nor MoldUDP64 can say no: a server that refuses is one whose port is closed.
const (
	Normal  Mode = "normal"
	Partial Mode = "partial" // half of what was asked for
	Silent  Mode = "silent"
	Slow    Mode = "slow"    // a fifth of a second later, or when Config.Slow lets it
	Limited Mode = "limited" // ten requests a second, the others are ignored
	Refuse  Mode = "refuse"  // nobody listens
)

// ParseMode reads a mode.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case Normal, Partial, Silent, Slow, Limited, Refuse:
		return m, nil
	}
	return "", fmt.Errorf("recovery mode %q: want normal, partial, silent, slow, limited or refuse", s)
}

const (
	slowBy       = 200 * time.Millisecond
	limit        = 10 // requests a second
	mostPackets  = 64 // in answer to one request
	requestBytes = 2048
)

// Server answers recovery requests over UDP from a store.
type Server struct {
	Requests, Answered, Malformed atomic.Uint64

	store *Store
	mode  Mode
	conn  *net.UDPConn
	addr  netip.AddrPort
	slow  func() // what a slow server does before it answers
	done  chan struct{}
}

// serve answers on an address until Close. Slow is nil for a pause.
func serve(at netip.AddrPort, store *Store, mode Mode, slow func()) (*Server, error) {
	c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at))
	if err != nil {
		return nil, fmt.Errorf("recovery server: %w", err)
	}
	if slow == nil {
		slow = func() { time.Sleep(slowBy) }
	}
	s := &Server{store: store, mode: mode, slow: slow, conn: c, addr: c.LocalAddr().(*net.UDPAddr).AddrPort(),
		done: make(chan struct{})}
	if mode == Refuse {
		close(s.done)
		return s, c.Close()
	}
	go s.run()
	return s, nil
}

// Addr is where the server listens.
func (s *Server) Addr() netip.AddrPort { return s.addr }

// Close ends the server and waits for it.
func (s *Server) Close() error {
	if s.mode == Refuse {
		return nil
	}
	err := s.conn.Close()
	<-s.done
	return err
}

// run answers recovery requests, only so many in a second, until the server is closed.
func (s *Server) run() {
	defer close(s.done)
	b := make([]byte, requestBytes)
	var second time.Time
	inSecond := 0
	for {
		n, from, err := s.conn.ReadFromUDPAddrPort(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // an ICMP error of an answer nobody waits for
		}
		first, last, most, ok := s.parse(b[:n])
		if !ok {
			s.Malformed.Add(1)
			continue
		}
		s.Requests.Add(1)
		switch s.mode {
		case Silent:
			continue
		case Slow:
			s.slow()
		case Partial:
			last = first + (last-first+1)/2
		case Limited:
			if now := time.Now(); now.Sub(second) >= time.Second {
				second, inSecond = now, 0
			}
			if inSecond++; inSecond > limit {
				continue
			}
		}
		for _, p := range s.store.Packets(first, last, most) {
			if _, err := s.conn.WriteToUDPAddrPort(p, from); err != nil {
				break // the client is gone, or will ask again
			}
		}
		s.Answered.Add(1)
	}
}

// parse reads a request for messages first to last-1.
func (s *Server) parse(b []byte) (first, last uint64, most int, ok bool) {
	if s.store.d.proto == handler.MoldUDP64 {
		r, err := moldudp64.ParseRequest(b)
		return r.Seq, r.Seq + uint64(r.Count), 1, err == nil
	}
	g, err := iextp.ParseGapFill(b)
	return g.From, g.To, mostPackets, err == nil
}
