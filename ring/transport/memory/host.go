package memory

import (
	"fmt"
	"math/rand/v2"
	"syscall"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/memory/protocol"
)

// Config describes a host.
type Config struct {
	Link     *Link
	Protocol protocol.Config // its MSS is at most the link's; Random comes from the seed if it is nil
	// SendBuffer is how many bytes of Send a connection keeps until they are acknowledged: 262,144.
	SendBuffer int
	Seed       uint64
	Clock      clock.Source // that of the ring.Set; nil: the system's
	// Spare is a host with a link of its own that the ring polls too: MoveTo. It gets no ring by itself.
	Spare *Host
	// Device is the name of the host's interface: "mem0".
	Device string
}

// OneRing is the reason why all sockets of a host share a ring: SetConfig.OneRing.
var OneRing = ring.Reason{Code: "memory.one_ring", Text: "a host of the memory transport has one link, which one ring polls"}

// Host is the Transport of one ring.Set, and its sockets' records. It belongs to the owner of the set.
type Host struct {
	config Config
	clock  clock.Source
	link   *Link
	table  *protocol.Table
	pool   *buffers.DriverPool // of the driver
	driver *driver

	records    []record // by Conn-1
	free       []int32
	byID       []int32 // index of the record, by protocol.ID; -1: none
	byListener []int32 // the same, by the protocol's number

	pieces     []piece // what is sent, in lists of their records
	freePieces int32
	arrivals   []arrival // what was received
	freeArr    int32

	ready       []int32      // records with facts to report
	reporting   []int32      // those of this Reap
	completions []completion // transmissions to give back
	input       []byte       // payload of the frame being put in
	now         clock.Time
	leaving     bool    // see MoveTo
	other       *Host   // where connections went, or came from
	roomless    []int32 // records that wait for free buffers to send from
	freed       uint64  // the pool's, when they were looked at
}

// completion is a transmission whose end is to be reported.
type completion struct {
	socket *ring.Socket
	sent   ring.Transmission
	errno  syscall.Errno
}

// none ends lists; it is no index.
const none = -1

// New makes a host.
func New(c Config) (*Host, error) {
	if c.Link == nil {
		return nil, fmt.Errorf("memory: new host: no link: %w", syscall.EINVAL)
	}
	if c.Clock == nil {
		c.Clock = clock.Now
	}
	if c.SendBuffer <= 0 {
		c.SendBuffer = 256 << 10
	}
	if c.Device == "" {
		c.Device = "mem0"
	}
	if c.Protocol.MSS <= 0 || c.Protocol.MSS > c.Link.MSS() {
		c.Protocol.MSS = c.Link.MSS()
	}
	if c.Protocol.Random == nil {
		c.Protocol.Random = rand.New(rand.NewPCG(c.Seed, 2)).Uint64
	}
	h := &Host{config: c, clock: c.Clock, link: c.Link, freePieces: none, freeArr: none}
	h.table = protocol.New(c.Protocol, segments{h}, h.clock())
	return h, nil
}

// Link is the host's end of the network.
func (h *Host) Link() *Link { return h.link }

// Protocol is the table of the host's connections, to be read only. Owner only.
func (h *Host) Protocol() *protocol.Table { return h.table }

// index is the index of a socket's record in Host.records.
func index(s *ring.Socket) int32 { return int32(ring.HandleOf(s).Conn) - 1 }

// record finds the record of a socket.
func (h *Host) record(s *ring.Socket) *record { return &h.records[index(s)] }

// segments is the Host as the protocol sees it.
type segments struct{ *Host }
