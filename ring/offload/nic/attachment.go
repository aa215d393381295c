package nic

import (
	"io"
	"sync/atomic"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/offload/steering"
	"github.com/socketxtreme/socketxtreme/udp"
)

// Attachments are a ring's attachments to interfaces, with the flat list of its links. They belong to the ring's goroutine. The zero value is
// a ring without any.
type Attachments struct {
	table   *Table
	ring    int
	pool    *buffers.DriverPool
	clock   clock.Source
	wake    func()
	events  Events
	now     clock.Time
	list    []*attachment
	bonds   []*bond
	links   []Link      // the flat list
	unused  []int       // places in it: those of attachments that have left
	aliases map[int]int // interfaces that were made again: number then, number now
	stats   Stats

	background Background
	checkSoon  atomic.Bool // a job has ended, or a link has failed
	generation uint64      // of the host's tables at the last Check
	version    uint64      // of the table, likewise
}

// Stats are counts of one ring's attachments.
type Stats struct {
	RetryFailures   uint64 // tries to have a lost interface or an idle queue that did not succeed
	AddressFailures uint64 // changes of addresses that the steering program could not be notified of
	IllegalMoves    uint64 // changes of state that were refused: a bug of this package
}

// Interface names an interface for a ring to attach to, with the queues that the ring serves there.
type Interface struct {
	Name string // of the interface whose queues carry the frames
	// Queues are those that this ring serves; nil: all that no other ring serves, so that the first one has them; empty and not nil:
	// none. A ring without a queue receives what the others hand over and sends through the kernel. Of those that are named, the ones which
	// the device was not opened with are left out; there must be others.
	Queues []int
	// Share, with Queues nil, leaves the queues of others to rings that attach later: each ring takes its share of those that are free.
	Share    Share
	Fill     int           // buffers that each queue keeps ready for its card; 0: all of them together half of the pool
	VLAN     uint16        // of the frames' tag; 0: untagged. Several of one interface are attachments of their own, with its queues
	On       string        // the interface that has the addresses, where it is another: eth0.5 for VLAN 5 of eth0
	Bond     bool          // the queues are those of each member of the bond that Name is, or stands on, as the host has it from then on
	Checksum udp.Policy    // what is done with wrong checksums
	Path     []link.Reason // reasons of the caller's choice, for socket paths
	// Later has a job open the interface, so that Add waits for nothing. Until it is open the attachment is as one whose interface is lost, with
	// the reason link.opening, and one that cannot be opened is tried again.
	Later bool
}

// attachment is a ring's use of an interface: the queues it serves there, as long as they can be had. Its state says whether it has links.
type attachment struct {
	Interface
	set       *Attachments
	nic       *nic
	state     State
	serial    uint64    // nic.serial of the device that the links are of
	info      link.Info // of that device
	guardNews uint64    // nic.guardNews when the sockets were last notified
	ifIndex   int       // of the interface that has the addresses
	places    []int     // in the flat list, those that have a link first
	count     int       // how many have one
	base      *attachment
	bond      *bond // not nil: the attachment is to a member of it
	role      Role

	lost          link.Reason // why the device carries nothing; empty while it does
	parentLost    link.Reason // why the interface that has the addresses carries nothing, where that is another
	queueRefused  link.Reason // why an idle queue could not be had
	idle          idleQueues  // of the interface, as the paths of its sockets say
	reportedCount int         // count, likewise
	stacked       stacked     // what stands on the interface, likewise
	changed       bool        // its path has changed: the sockets that use it must be notified
	refusedFrames bool        // the interface was down and refused frames (LinkFailed): its links hold them

	program int        // on the interface when a try failed, as the mirror had it
	retryAt clock.Time // when to look again, after what wait
	backoff clock.Time

	job      *Job          // under way; nil for none
	rejoin   *Job          // of the driver: what its sockets had joined on an interface that was made again is joined again
	removed  []link.Staged // links that were removed, to be closed by a job
	surplus  []link.Staged // and links that were opened in vain
	dead     io.Closer     // and a device that no attachment has any more
	released bool          // the table knows that it has left
}

// Role is what a link is to the bond that its interface is.
type Role uint8

// The roles.
const (
	NoBond      Role = iota // the interface is no bond
	Active                  // it sends, with the other active ones: each flow by one of them
	ActiveQueue             // a further queue of such a link: it receives
	Inactive                // it sends nothing, and what it gets for groups the active ones get as well
	Backup                  // the same in active-backup: nothing that it gets is taken
)

// claimTarget is the interface, and the VLAN of it, at which the attachment's flows are claimed.
func (p *attachment) claimTarget() steering.Target {
	return steering.Target{Claimer: p.nic, VLAN: p.VLAN}
}

// lossReason is why the attachment carries nothing; empty while it does. In this order: its device is lost; the interface was made again, and
// the driver joins its sockets' groups there again; the interface that has the addresses, where that is another, carries nothing.
func (p *attachment) lossReason() link.Reason {
	switch {
	case p.lost.Code != "":
		return p.lost
	case p.rejoin != nil:
		return link.Reason{Code: "link.joining", Text: "interface " + p.On + " was made again: the groups of its sockets are being joined again"}
	}
	return p.parentLost
}

// fillFor is how many buffers each of n queues may keep ready for its card: of half of what receiving may take its share, or the last ones
// would find nothing.
func (p *attachment) fillFor(n int, pool *buffers.DriverPool) int {
	if p.Fill > 0 {
		return p.Fill
	}
	return max(pool.ReceiveShare(buffers.Small)/2/max(n, 1), 1)
}

// hasLeftovers reports whether a job must close something that the attachment had.
func (p *attachment) hasLeftovers() bool {
	return len(p.removed) > 0 || len(p.surplus) > 0 || p.dead != nil
}

// The reasons for which an attachment carries nothing, as socket paths show them.

func (p *attachment) reasonDeleted() link.Reason {
	return link.Reason{Code: "link.gone", Text: "interface " + p.Name + " was deleted"}
}

func (p *attachment) reasonOpening() link.Reason {
	return link.Reason{Code: "link.opening", Text: "interface " + p.Name + " is being opened"}
}

func (p *attachment) reasonDown() link.Reason {
	return link.Reason{Code: "link.down", Text: "interface " + p.Name + " is down"}
}

func (p *attachment) reasonNoCarrier() link.Reason {
	return link.Reason{Code: "link.no_carrier", Text: "interface " + p.Name + " has no carrier: no cable, or its peer is down"}
}

func (p *attachment) reasonParentDeleted() link.Reason {
	return link.Reason{Code: "link.gone", Text: "interface " + p.On + " was deleted"}
}
