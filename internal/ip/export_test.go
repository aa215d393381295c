package ip

import "github.com/socketxtreme/socketxtreme/internal/wire"

// Limits that tests reach.
const (
	TableLimit       = tableLimit
	AskTries         = askTries
	AnswerLimit      = answerLimit
	WaitingPerTarget = waitingPerTarget
	QuerySources     = querySources
	NextHopLimit     = nextHopLimit
)

// NumNeighbours is the length of the ARP table, StationOf an entry's station.
func (h *LocalHost) NumNeighbours() int       { return len(h.neighbours) }
func (h *LocalHost) StationOf(i int) wire.MAC { return h.neighbours[i].mac }

// PickLink, SendingLink and QueueOn are what routes and answers use.
func (s *Stack) PickLink(iface int, hash uint32) int { return s.pickLink(iface, hash) }
func (s *Stack) SendingLink(i int) int               { return s.sendingLink(i) }
func (s *Stack) QueueOn(link int, o Out)             { s.queue(link, o, 0) }

// PendingReports is how many IGMP reports wait, PendingSources the sources of one.
func (s *Stack) PendingReports() int              { return len(s.igmp.pending) }
func (s *Stack) PendingSources(i int) []wire.Addr { return s.igmp.pending[i].sources }
