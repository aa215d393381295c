package tcptest

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/simnet"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// A bug of every kind, put between the tables and their hosts, must be found within 1,000 seeds, under the name of the rule that it breaks.
func TestPlantedBugsAreFound(t *testing.T) {
	for i, x := range []struct {
		name  string
		found []string
		host  func(h *Host)
	}{
		{"a byte of the payload is another", []string{"content: "}, onPacket(func(h *Host, b []byte) {
			if tcpPayload(b) > 10 {
				b[len(b)-3] ^= 0x20
				fixSum(b)
			}
		})},
		{"data is sent under the next number", []string{"content: ", "wire: "}, onOutput(func(s *tcp.Segment, n int) int {
			if s.Payload.Length > 1 && s.Flags&wire.TCPFin == 0 {
				s.Seq++
			}
			return 1
		})},
		{"one byte too much is acknowledged", []string{"acknowledges 1 more", "right edge"}, onOutput(func(s *tcp.Segment, n int) int {
			if s.Flags&(wire.TCPSyn|wire.TCPRst) == 0 && n%50 == 0 {
				s.Ack++
			}
			return 1
		})},
		{"the window goes back", []string{"right edge"}, onOutput(func(s *tcp.Segment, n int) int {
			if s.Flags&(wire.TCPSyn|wire.TCPRst) == 0 && n%20 == 0 {
				s.Window /= 2
			}
			return 1
		})},
		{"FIN goes with the first data", []string{"beyond the FIN", "content: "}, onOutput(func(s *tcp.Segment, n int) int {
			if s.Payload.Length > 0 {
				s.Flags |= wire.TCPFin
			}
			return 1
		})},
		{"FIN is never sent", []string{"liveness: ", "has failed", "wire: "}, onOutput(func(s *tcp.Segment, n int) int {
			s.Flags &^= wire.TCPFin
			return 1
		})},
		{"nothing is sent again", []string{"liveness: ", "has failed"}, onOutput(func(s *tcp.Segment, n int) int {
			if s.Again {
				return 0
			}
			return 1
		})},
		{"everything is sent twice", []string{"cause: "}, onOutput(func(s *tcp.Segment, n int) int { return 2 })},
		{"a segment is sent again without cause", []string{"cause: "}, onOutput(func(s *tcp.Segment, n int) int {
			if n%500 == 0 && s.Payload.Length > 0 {
				return 2
			}
			return 1
		})},
		{"the peer's window counts double", []string{"beyond the peer's window"}, onInput(func(s *tcp.Segment, n int) bool {
			s.Window = uint16(min(2*int(s.Window), 65535))
			return true
		})},
		{"the peer's MSS is ignored", []string{"the peer takes segments"}, onInput(func(s *tcp.Segment, n int) bool {
			if s.Flags&wire.TCPSyn != 0 {
				s.Options.MSS = 1460
			}
			return true
		})},
		{"a reset in the window resets", []string{"has failed"}, func(h *Host) {
			last := map[[2]tcp.Endpoint]tcp.Seq{}
			h.plant.input = func(s *tcp.Segment) bool {
				k := [2]tcp.Endpoint{s.Local, s.Remote}
				if s.Flags&wire.TCPRst == 0 {
					last[k] = max(last[k], s.Seq.Add(span(s)))
				} else if d := s.Seq.Minus(last[k]); d > 0 && d < 200 {
					s.Seq = last[k]
				}
				return true
			}
		}},
		{"acknowledgements without data are not sent", []string{"liveness: ", "has failed", "cause: "}, onOutput(func(s *tcp.Segment, n int) int {
			if s.Flags == wire.TCPAck && s.Payload.Length == 0 && n > 20 {
				return 0
			}
			return 1
		})},
		{"data is lost between table and application", []string{"ledger: ", "content: ", "liveness: "},
			onEvent(tcp.EventData, 40, func(e tcp.Event) []tcp.Event { return nil })},
		{"data is delivered twice", []string{"buffer: "}, onEvent(tcp.EventData, 40, func(e tcp.Event) []tcp.Event { return []tcp.Event{e, e} })},
		{"a sent buffer never comes back", []string{"ledger: ", "buffer: "}, onEvent(tcp.EventSent, 40, func(e tcp.Event) []tcp.Event { return nil })},
		{"a sent buffer comes back twice", []string{"buffer: "}, onEvent(tcp.EventSent, 40, func(e tcp.Event) []tcp.Event { return []tcp.Event{e, e} })},
		{"the end comes twice", []string{"event: "}, onEvent(tcp.EventEnd, 3, func(e tcp.Event) []tcp.Event { return []tcp.Event{e, e} })},
		{"the end never comes", []string{"liveness: ", "has failed"}, onEvent(tcp.EventEnd, 3, func(e tcp.Event) []tcp.Event { return nil })},
		{"more is acknowledged than was written", []string{"event: "}, onEvent(tcp.EventAcked, 40, func(e tcp.Event) []tcp.Event {
			e.Payload.Length += 100000
			return []tcp.Event{e}
		})},
		{"a record never ends", []string{"liveness: ", "ledger: ", "record: "}, onEvent(tcp.EventGone, 3, func(e tcp.Event) []tcp.Event { return nil })},
		{"released data does not open the window", []string{"liveness: ", "has failed"}, func(h *Host) { h.plant.credit = func(int) int { return 0 } }},
		{"a timer never fires", []string{"timer: ", "liveness: ", "has failed", "ledger: "}, func(h *Host) {
			h.plant.due = func(now, at clock.Time) clock.Time { return clock.Never }
		}},
		{"a timer fires all the time", []string{"timer: "}, func(h *Host) {
			h.plant.due = func(now, at clock.Time) clock.Time { return min(at, now.Add(clock.Millisecond)) }
		}},
		{"a checksum is wrong where the length is odd", []string{"wrong checksum"}, onPacket(func(h *Host, b []byte) {
			if tcpPayload(b)%2 == 1 {
				b[len(b)-1]++
			}
		})},
		{"a state is skipped", []string{"state: "}, func(h *Host) {
			h.plant.state = func(s tcp.State) tcp.State {
				if s == tcp.LastAck {
					return tcp.FinWait2
				}
				return s
			}
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			if raceEnabled && i%7 != 0 {
				t.Skip("without the race detector only")
			}
			if testing.Short() && i%5 != 0 {
				t.Skip("all of them without -short only")
			}
			t.Parallel()
			f, ran := simnet.Trial[op]{Count: 1000, Workers: 1, Shrinks: -1, Once: true, Generate: generate,
				Run: func(seed uint64, ops []op) (uint64, error) {
					_, trace, err := play(seed, ops, plant{host: x.host})
					return trace, err
				}}.Search()
			require.NotNil(t, f, "not found in %d seeds", ran)
			require.True(t, slices.ContainsFunc(x.found, func(s string) bool { return strings.Contains(f.Err.Error(), s) }), "%v", f.Err)
			t.Logf("%d seeds: %v", ran, f.Err)
		})
	}
}

func onInput(f func(s *tcp.Segment, n int) bool) func(h *Host) {
	return func(h *Host) {
		n := 0
		h.plant.input = func(s *tcp.Segment) bool {
			n++
			return f(s, n)
		}
	}
}

func onOutput(f func(s *tcp.Segment, n int) int) func(h *Host) {
	return func(h *Host) {
		n := 0
		h.plant.output = func(s *tcp.Segment) int {
			n++
			return f(s, n)
		}
	}
}

func onPacket(f func(h *Host, b []byte)) func(h *Host) {
	return func(h *Host) { h.plant.packet = func(b []byte) { f(h, b) } }
}

// onEvent changes each n-th event of a kind.
func onEvent(kind tcp.EventKind, each int, f func(e tcp.Event) []tcp.Event) func(h *Host) {
	return func(h *Host) {
		n := 0
		h.plant.event = func(e tcp.Event) []tcp.Event {
			if e.Kind == kind {
				if n++; n%each == 0 {
					return f(e)
				}
			}
			return []tcp.Event{e}
		}
	}
}

func tcpPayload(b []byte) int {
	_, _, segment, _ := wire.ParseIPv4(b)
	_, _, payload, d := wire.ParseTCP(segment)
	if d != wire.Accept {
		return 0
	}
	return len(payload)
}

// fixSum writes the right TCP checksum again.
func fixSum(b []byte) {
	ip, _, s, _ := wire.ParseIPv4(b)
	s[16], s[17] = 0, 0
	check := wire.Pseudo(ip.Source(), ip.Target(), wire.ProtocolTCP, uint16(len(s))).Add(s).Check()
	s[16], s[17] = byte(check>>8), byte(check)
}
