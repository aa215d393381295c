package ring

import (
	"fmt"

	"github.com/socketxtreme/socketxtreme/internal/pace"
)

// Pacing is how fast a socket may send. (VMA: SO_MAX_PACING_RATE with a struct vma_rate_limit_t, whose rate is in Kbit/s: 1 is 125
// bytes a second.)
type Pacing struct {
	// Rate is in bytes a second; 0 is no limit.
	Rate uint64
	// Burst is how many bytes may leave at once after a pause. 0 takes a millisecond's worth or two typical datagrams, whichever is more:
	// what an owner that comes late by less does not lose. A datagram that is longer than Burst leaves when the whole burst would be
	// allowed, and what it has too much is waited for afterwards.
	Burst int
	// Packet is the length of a typical datagram, for choosing Burst; 0 means 1,500.
	Packet int
	// Overhead is counted with each datagram beside its payload: 28 makes Rate that of IPv4 packets, 42 that of Ethernet frames. Without, an
	// empty datagram counts as one byte.
	Overhead int
}

const (
	typicalPacket = 1500
	maxOverhead   = 256
)

// complete checks p and fills in what was left to the library.
func (p Pacing) complete() (Pacing, error) {
	switch {
	case p.Rate > pace.MaxRate:
		return p, badArgument("set pacing", "rate", p.Rate)
	case p.Burst < 0 || p.Burst > pace.MaxBurst:
		return p, badArgument("set pacing", "burst", p.Burst)
	case p.Packet < 0 || p.Packet > largestUDP:
		return p, badArgument("set pacing", "typical packet", p.Packet)
	case p.Overhead < 0 || p.Overhead > maxOverhead:
		return p, badArgument("set pacing", "overhead", p.Overhead)
	case p.Rate == 0 && p != Pacing{}:
		return p, badArgument("set pacing", "burst, packet or overhead without a rate:", p)
	case p.Rate == 0:
		return p, nil
	case p.Burst != 0 && p.Packet != 0 && p.Burst < p.Packet+p.Overhead:
		return p, badArgument("set pacing", fmt.Sprintf("burst, with typical packets of %d and an overhead of %d:", p.Packet, p.Overhead),
			p.Burst)
	}
	if p.Packet == 0 {
		p.Packet = typicalPacket
	}
	if p.Burst == 0 {
		p.Burst = min(max(int(p.Rate/1000), 2*(p.Packet+p.Overhead)), pace.MaxBurst)
	}
	return p, nil
}

// SetPacing limits how fast the socket sends (SO_MAX_PACING_RATE). It can be set before the socket has a ring, changed at any time, and
// ended by the zero Pacing: what waits then leaves at once. A limit that is set again soon after is not a new burst: what had left under
// the last one is remembered until that rate has paid for it.
//
// Datagram sockets are paced by the ring, on every kind of ring, because the kernel heeds the option only with a queueing discipline
// that paces (fq). What may not leave yet waits on the socket, in order, up to Config.SendQueue datagrams; beyond that sends are
// refused with ErrWouldBlock, and EventOut comes when half of the queue is empty. Polling lets go what is due; Wait, Arm and FD wake for
// it. On kernel rings what a paced socket sends is copied (reason pace.copies).
//
// A TCP connection is paced by the kernel, which takes a rate and nothing else; connections of a listener take over its rate. Owner
// only, or anyone before the ring's first Poll.
func (s *Socket) SetPacing(p Pacing) error {
	if err := s.mayUse("set pacing"); err != nil {
		return err
	}
	return traced(s, "set pacing", p, s.setPacing(p))
}

// setPacing is SetPacing for a caller that is the owner.
func (s *Socket) setPacing(p Pacing) error {
	const op = "set pacing"
	if err := s.ipOnly(op); err != nil {
		return err
	}
	full, err := p.complete()
	switch {
	case err != nil:
		return err
	case s.handle.Kind == KindDatagram:
		return s.paceDatagrams(full)
	case !s.isOffloaded() && // our own TCP refuses each rate, below
		(p.Burst != 0 || p.Packet != 0 || p.Overhead != 0):
		return &OpError{Op: op, Err: &FeatureError{
			Feature: "burst, packet size and overhead of TCP: the kernel paces it and takes a rate only", Code: "pace.kernel_rate_only"}}
	}
	if err := s.transport().SetOption(s, OptionPacingRate, int(p.Rate)); err != nil {
		return &OpError{Op: op, Err: fmt.Errorf("rate %d: %w", p.Rate, err)}
	}
	s.activate().pacing = p // not full: a burst is the kernel's choice
	return nil
}

// paceDatagrams is SetPacing for datagram sockets: the ring's own token bucket. p is complete; its zero value lets what waits leave at once.
func (s *Socket) paceDatagrams(p Pacing) error {
	sh := s.active().shaper
	if sh == nil {
		if p.Rate == 0 {
			return nil
		}
		sh = s.openShaper()
	}
	limit := pace.Limit{Rate: p.Rate, Burst: uint64(p.Burst)}
	if err := sh.bucket.Set(s.set().config.Clock(), limit); err != nil {
		return &OpError{Op: "set pacing", Err: err}
	}
	s.activate().pacing, sh.overhead = p, p.Overhead
	if s.ring() != nil {
		s.dequeueDue()
	}
	return nil
}

// Pacing is what SetPacing set, with what it left to the library filled in; the zero Pacing when nothing limits the socket. Owner only.
func (s *Socket) Pacing() Pacing {
	if !s.readable() {
		return Pacing{}
	}
	return s.active().pacing
}

// paceCopies is a reason of paced or stamped sockets where others need no copy.
var paceCopies = Reason{Code: "pace.copies",
	Text: "what a paced or transmit-stamped socket sends is copied: it leaves by the owner's own system call, at its time and in its order"}
