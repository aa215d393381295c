package xtreme

import "github.com/socketxtreme/socketxtreme/ring"

// PacingRate is how fast a socket may send; see ring.Pacing.
type PacingRate = ring.Pacing

// Pacing limits how fast a socket sends (SO_MAX_PACING_RATE): UDP sockets by the ring, TCP connections and those of a listener by the
// kernel. See Socket.SetPacing, which changes it later.
func Pacing(p PacingRate) Option {
	return step("Pacing", forIP, func(s *Socket) error { return s.SetPacing(p) })
}
