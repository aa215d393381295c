package simnet

import (
	"fmt"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// Switch is an Ethernet switch (IEEE 802.1D) without delay of its own: it learns who is where, floods what it does not know and all groups,
// and forgets a station that was silent for five minutes. It has no spanning tree: cables must not make a loop.
type Switch struct {
	world *World
	name  string
	ports []*Line
	table map[[6]byte]station
	stats SwitchStats
}

type station struct {
	port int
	at   int64
}

const aging = int64(5 * time.Minute)

// SwitchStats are totals of a switch. Received - Filtered + Copies + Queries frames were sent, which the world checks.
type SwitchStats struct {
	Received uint64
	Filtered uint64 // not sent on: the station is where the frame came from, or there is no other port
	Copies   uint64 // frames more than received, by flooding
	Flooded  uint64 // frames for one station that was not known
	Queries  uint64 // frames that Query sent
}

// Switch adds a switch.
func (w *World) Switch(name string) *Switch {
	s := &Switch{world: w, name: name, table: map[[6]byte]station{}}
	w.switches = append(w.switches, s)
	return s
}

// Name is the switch's.
func (s *Switch) Name() string { return s.name }

// Stats are the totals so far.
func (s *Switch) Stats() SwitchStats { return s.stats }

func (s *Switch) plug(out *Line) (socketPlace, error) {
	s.ports = append(s.ports, out)
	return socketPlace{sw: s, port: len(s.ports) - 1}, nil
}

func (s *Switch) label() string { return s.name }
func (s *Switch) home() *World  { return s.world }

// forward handles a frame that came in at a port, as an Ethernet switch does: it learns the sender's port, and sends the frame to the port of
// its destination, or to all others if that is not known or the frame is for a group.
func (s *Switch) forward(from int, f *frame) {
	s.stats.Received++
	now := s.world.now
	if f.b[6]&1 == 0 {
		s.table[[6]byte(f.b[6:12])] = station{from, now}
	}
	if f.b[0]&1 == 0 {
		if st, ok := s.table[[6]byte(f.b[:6])]; ok && now-st.at < aging {
			if st.port == from {
				s.filter(f)
			} else {
				s.ports[st.port].send(f)
			}
			return
		}
		s.stats.Flooded++
	}
	if len(s.ports) == 1 {
		s.filter(f)
		return
	}
	s.stats.Copies += uint64(len(s.ports) - 2)
	f.refs += int32(len(s.ports) - 2)
	for i, l := range s.ports {
		if i != from {
			l.send(f)
		}
	}
}

// filter counts and drops a frame that is for no other port.
func (s *Switch) filter(f *frame) {
	s.stats.Filtered++
	s.world.releaseFrame(f)
}

// Query makes the switch send a general query of IGMPv3 to all ports (RFC 9776), as a querier does: every host reports its groups within the
// time.
func (s *Switch) Query(within time.Duration) error {
	if within < 0 {
		return fmt.Errorf("simnet: query of %s: answers within %v", s.name, within)
	}
	all := wire.AllSystems
	q := wire.Query{Version: 3, MaxResponse: within, Robustness: 2, Interval: 125 * time.Second}
	body, err := q.Append(nil)
	if err != nil {
		return fmt.Errorf("simnet: query of %s: %w", s.name, err)
	}
	eth := wire.EthernetFields{Target: wire.GroupMAC(all), Source: wire.MAC{2, 0xff, 0, 0, 0, 1}, Type: wire.TypeIPv4}
	ip := wire.IPv4Fields{TTL: 1, TOS: 0xc0, Protocol: wire.ProtocolIGMP, Source: wire.Addr{192, 0, 2, 1}, Target: all,
		Options: wire.RouterAlert[:]}
	b, err := ip.Append(eth.Append(nil), len(body))
	if err != nil {
		return fmt.Errorf("simnet: query of %s: %w", s.name, err)
	}
	b = append(b, body...)
	for _, l := range s.ports {
		f := s.world.newFrame(len(b))
		copy(f.b, b)
		f.kind = kindOf(b)
		s.stats.Queries++
		l.send(f)
	}
	return nil
}
