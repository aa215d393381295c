package extraapi

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// DumpStats writes statistics to w as text: with an id those of the poller's socket with that ID; with id 0 those of all its sockets that have
// a ring, then those of its rings and buffers. DumpSocket writes a socket without a ring. An id that no socket has is EBADF, and nothing is
// written. Each socket and each ring is one Write. Owner only. (VMA: dump_fd_stats, which writes to its log and ignores an unknown
// descriptor.)
func DumpStats(w io.Writer, p *xtreme.Poller, id int) error {
	if p == nil {
		return fmt.Errorf("extraapi: DumpStats: poller is nil: %w", unix.EINVAL)
	}
	var found []*xtreme.Socket
	for _, r := range p.Rings() {
		err := r.EachSocket(func(s *ring.Socket) {
			if id == 0 || s.ID() == id {
				found = append(found, s)
			}
		})
		if err != nil {
			return fmt.Errorf("extraapi: DumpStats: %w", err)
		}
	}
	if len(found) == 0 && id != 0 {
		return fmt.Errorf("extraapi: DumpStats: socket %d is none of poller %q: %w", id, p.Name(), unix.EBADF)
	}
	slices.SortFunc(found, func(a, b *xtreme.Socket) int { return a.ID() - b.ID() })
	for _, s := range found {
		if err := DumpSocket(w, s); err != nil {
			return err
		}
	}
	if id != 0 {
		return nil
	}
	for _, r := range p.Rings() {
		if _, err := io.WriteString(w, describeRing(r)); err != nil {
			return fmt.Errorf("extraapi: DumpStats: %w", err)
		}
	}
	_, err := fmt.Fprintf(w, "buffers: %v\n", p.Ledger())
	return err
}

// DumpSocket writes the statistics of one socket to w as text, in one Write. A closed socket still has them while its ring is open. Owner only.
func DumpSocket(w io.Writer, s *xtreme.Socket) error {
	if s == nil {
		return noSocket("DumpSocket")
	}
	err := s.Check()
	if r := s.Ring(); r != nil {
		err = r.Check() // not that of the socket, which may be closed
	} else if !errors.Is(err, ring.ErrOwner) {
		err = nil // it has no ring yet
	}
	if err != nil {
		return fmt.Errorf("extraapi: DumpSocket: %w", err)
	}
	if _, err := io.WriteString(w, describeSocket(s)); err != nil {
		return fmt.Errorf("extraapi: DumpSocket: %w", err)
	}
	return nil
}

// describeSocket returns a socket's statistics as lines of text.
func describeSocket(s *xtreme.Socket) string {
	var b strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	line("socket %d: %v, %s, %v mode, user data %d", s.ID(), s.Kind(), s.State(), s.Mode(), s.UserData())
	if s.LocalAddr().IsValid() {
		line("  local %v, remote %s", s.LocalAddr(), orNone(s.RemoteAddr().IsValid(), s.RemoteAddr()))
	}
	line("  path: %v", s.Path())
	if r := s.Ring(); r != nil {
		line("  ring: descriptor %d, %v", r.FD(), r.Key())
	}
	c := s.Stats()
	packets, bytes := s.Waiting()
	line("  rx: packets %d, bytes %d, waiting %d packets %d bytes, held %d bytes, dropped %d, by the callback: dropped %d, held %d",
		c.Packets, c.Bytes, packets, bytes, s.Held(), c.Drops, c.CallbackDrops, c.CallbackHolds)
	line("  tx: messages %d, bytes %d, short %d, errors %d, warm %d, warm refused %d", c.SentMessages, c.SentBytes, c.ShortSends,
		c.SendErrors, c.WarmSends, c.WarmSendsCold)
	// The descriptor of a closed socket may be another file's by now.
	if s.Kind() == xtreme.KindStream && s.LocalAddr().IsValid() && !s.IsOffloaded() && s.State() != "closed" {
		if i, err := unix.GetsockoptTCPInfo(s.ID(), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			line("  tcp: round trip %d us, retransmits %d, lost %d, window %d, mss %d", i.Rtt, i.Total_retrans, i.Lost, i.Snd_cwnd, i.Snd_mss)
		}
	}
	for _, g := range ring.OptionsOf(s).Groups {
		line("  group: %v, interface %d, source %s", g.Group, g.Interface, orNone(g.Source.IsValid(), g.Source))
	}
	return b.String()
}

// orNone returns an address as text, or "none" if it is not valid.
func orNone(valid bool, a fmt.Stringer) string {
	if !valid {
		return "none"
	}
	return a.String()
}

// describeRing returns a ring's statistics as lines of text; counters of its driver that are zero are left out.
func describeRing(r *ring.Ring) string {
	s := r.Stats()
	var b strings.Builder
	fmt.Fprintf(&b, "ring %d: %s, %v, sockets %d, polls %d, completions %d, packets %d, bytes %d, sent %d messages %d bytes, sleeps %d\n",
		r.FD(), r.Kind(), r.Key(), r.Sockets(), s.Polls, s.Completions, s.Packets, s.Bytes, s.SentMessages, s.SentBytes, s.Sleeps)
	for _, c := range s.Driver {
		if c.Value != 0 {
			fmt.Fprintf(&b, "  %s %d\n", c.Name, c.Value)
		}
	}
	return b.String()
}
