package offload

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/epoll"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/transport/repair"
	"github.com/socketxtreme/socketxtreme/ring/transport/stream"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// Connections of the stack move into the kernel and back, in mid-stream. Package repair says what is carried.
//
//	when                                                   to
//	its interface carries no frames for MoveAfter,         the kernel
//	 and the kernel has a way to the peer
//	its route leads over an interface that is no link      the kernel
//	both are over                                          the stack
//	MoveToKernel, MoveToStack                              as they say, and it stays there
//
// A turn moves movesPerTurn of them, each in some 0.1 to 3 ms: the system calls for one wait for no lock of the kernel's configuration. A
// connection that cannot move stays where it is; its path says why.

const (
	// moveAfter is the default of stream.Options.MoveAfter. A program that is displaced for a moment moves no connection.
	moveAfter = 5 * clock.Second
	// moveScan is the time between two looks for connections that are to move, while an interface is lost; moveRetry after one that found any
	// then, and while connections are in the kernel. Otherwise the next change of interfaces or routes brings the next look.
	moveScan  = clock.Second
	moveRetry = 10 * clock.Second
	// movesPerTurn bounds the time that moves take of a turn.
	movesPerTurn = 4
	// A connection for whose queues the ring has too few buffers is tried again after moveRoomWait, for moveRoomTime at the most. Each try
	// costs it the segments that come meanwhile.
	moveRoomWait = 20 * clock.Millisecond
	moveRoomTime = 2 * clock.Second
)

// movedStream is a connection that was moved into the kernel.
type movedStream struct {
	below    ring.Conn // the socket that reserves its port; 0: its listener's does
	settings tcp.Settings
	asked    bool // by MoveToKernel: it stays until MoveToStack
	stays    bool // it is in a state that cannot move: it ends in the kernel
}

// moveOrder is a connection that is to move.
type moveOrder struct {
	toKernel, asked bool
	why             ring.Reason // of a move to the kernel
	notBefore       clock.Time
	roomUntil       clock.Time // until when it waits for buffers; 0: it has not found too few yet
}

// postpone puts off an order that has found no buffers. It reports whether the order is to be tried again.
func (o *moveOrder) postpone(err error, now clock.Time) bool {
	if !errors.Is(err, unix.ENOBUFS) {
		return false
	}
	if o.roomUntil == 0 {
		o.roomUntil = now.Add(moveRoomTime)
	}
	o.notBefore = now.Add(moveRoomWait)
	return o.notBefore < o.roomUntil
}

// moves is what a driver knows of connections that move.
type moves struct {
	orders    map[*ring.Socket]moveOrder
	queue     []*ring.Socket // of orders, in order; those without an order any more are skipped
	moved     map[*ring.Socket]*movedStream
	refused   map[*ring.Socket]ring.Reason // why a connection could not move when it was tried last
	lostSince map[int]clock.Time           // by interface: see lostInterfaces
	scanAt    clock.Time                   // when to look; 0: nothing is to be looked for
	toKernel  uint64
	toStack   uint64
	refusals  uint64
}

// mover is a claimer that can move connections: an interface with a guard.
type mover interface {
	BeginMove(f link.Flow) error
	PassMoved(f link.Flow) error
	StopPassing(f link.Flow)
	EndMove(f link.Flow)
}

// MoveToKernel has a TCP connection of the stack go on in the kernel, from the next Poll on, which raises EventPath. The order of its data, its
// user data, queues and deadlines stay. When it cannot move, EventPath is raised too, and the reason tcp.not_moved is in its path. It stays
// there until MoveToStack. Errors: EINVAL where the driver has no such connection. Owner only.
func MoveToKernel(drv ring.Driver, s *ring.Socket) error { return orderMove(drv, s, true) }

// MoveToStack has a connection that was moved into the kernel go on in the stack: as MoveToKernel.
func MoveToStack(drv ring.Driver, s *ring.Socket) error { return orderMove(drv, s, false) }

func orderMove(drv ring.Driver, s *ring.Socket, toKernel bool) error {
	d, ok := drv.(*driver)
	if !ok || d.tcp.streams == nil || d.tcp.ports == nil || ring.HandleOf(s).Kind != ring.KindStream {
		return fmt.Errorf("offload: move a connection: not one of a ring with TCP beside a kernel: %w", unix.EINVAL)
	}
	_, moved := d.tcp.moves.moved[s]
	switch {
	case toKernel && moved:
		d.tcp.moves.moved[s].asked = true
		return nil
	case toKernel == isKernels(s):
		return fmt.Errorf("offload: move a connection: it is there, or the stack never had it: %w", unix.EINVAL)
	}
	d.tcp.moves.add(s, moveOrder{toKernel: toKernel, asked: true, why: movedReason("it was asked for")})
	return nil
}

// movedReason is the reason in the path of a connection that was moved into the kernel.
func movedReason(why string) ring.Reason {
	return ring.Reason{Code: "tcp.moved", Text: "the connection was moved into the kernel: " + why}
}

// add has a connection move in one of the next turns.
func (m *moves) add(s *ring.Socket, o moveOrder) {
	if m.orders == nil {
		m.orders, m.moved, m.refused = map[*ring.Socket]moveOrder{}, map[*ring.Socket]*movedStream{}, map[*ring.Socket]ring.Reason{}
	}
	if _, is := m.orders[s]; !is {
		m.queue = append(m.queue, s)
	}
	m.orders[s] = o
}

// forget is called when a connection leaves the ring. below is the socket that reserves its port, 0 for none.
func (m *moves) forget(s *ring.Socket) (below ring.Conn) {
	delete(m.orders, s)
	delete(m.refused, s)
	if x := m.moved[s]; x != nil {
		delete(m.moved, s)
		return x.below
	}
	return 0
}

// isIdle reports whether nothing is to be moved or looked for.
func (m *moves) isIdle() bool { return len(m.queue) == 0 && m.scanAt == 0 }

// next is when the ring has to be polled for moves.
func (m *moves) next(now clock.Time) clock.Time {
	next := clock.Never
	if m.scanAt != 0 {
		next = m.scanAt
	}
	for _, s := range m.queue {
		next = min(next, max(m.orders[s].notBefore, now)) // without an order any more: now
	}
	return next
}

// forgetMoves is called when a connection leaves the ring.
func (d *driver) forgetMoves(s *ring.Socket) {
	if below := d.tcp.moves.forget(s); below != 0 {
		_ = d.tcp.ports.Release(below) // it reserved the port, which the connection has
	}
}

// scanMovesSoon has the ring look for connections that are to move, some time after the interfaces or routes have changed.
func (d *driver) scanMovesSoon() {
	if d.tcp.streams != nil && d.tcp.ports != nil && d.config.TCP.MoveAfter >= 0 {
		d.tcp.moves.scanAt = d.turn.now.Add(min(moveScan, d.moveAfter()))
	}
}

// moveAfter is stream.Options.MoveAfter.
func (d *driver) moveAfter() clock.Duration {
	if x := d.config.TCP.MoveAfter; x != 0 {
		return x
	}
	return moveAfter
}

// moveConnections is a turn's share of moves.
func (d *driver) moveConnections(k *ring.Sink) {
	m := &d.tcp.moves
	if m.scanAt != 0 && d.turn.now >= m.scanAt {
		d.scanMoves()
	}
	left := len(m.queue) // of those that were there before this turn
	for n := 0; n < movesPerTurn && left > 0 && k.Room() > 0; left-- {
		s := m.queue[0]
		m.queue = m.queue[1:]
		o, ok := m.orders[s]
		if !ok {
			continue
		}
		if d.turn.now < o.notBefore {
			m.queue = append(m.queue, s)
			continue
		}
		n++
		delete(m.orders, s)
		var err error
		if o.toKernel {
			err = d.moveToKernel(k, s, o)
		} else {
			err = d.moveToStack(k, s)
		}
		switch {
		case errors.Is(err, unix.EINPROGRESS), o.postpone(err, d.turn.now):
			m.add(s, o) // a later turn
		case err != nil:
			m.refusals++
			if x := m.moved[s]; x != nil && errors.Is(err, repair.ErrState) {
				x.stays = true
			}
			why := ring.Reason{Code: "tcp.not_moved", Text: "the connection could not be moved: " + err.Error()}
			if m.refused[s] != why {
				m.refused[s] = why
				k.PathChanged(s)
			}
		default:
			delete(m.refused, s)
		}
	}
	if len(m.queue) == 0 { // its memory begins with the sockets that were taken: they are not to be kept alive
		m.queue = nil
	}
}

// connectionFlow is the flow of a connection, and the movers of its interface.
func (d *driver) connectionFlow(s *ring.Socket) (list []movingFlow, err error) {
	f := link.Flow{Protocol: link.TCP, Local: unmapped(s.LocalAddr()), Remote: unmapped(s.RemoteAddr())}
	for _, at := range d.claims.Targets() {
		x, ok := at.Claimer.(mover)
		if !ok {
			return nil, nic.ErrUnguarded
		}
		f.VLAN = at.VLAN
		list = append(list, movingFlow{x, f})
	}
	if len(list) == 0 {
		return nil, nic.ErrUnguarded
	}
	return list, nil
}

// unmapped is the IPv4 address of one of a socket of both families.
func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

type movingFlow struct {
	mover
	flow link.Flow
}

// beginMove has the guards drop a connection's segments. end undoes it.
func (d *driver) beginMove(s *ring.Socket) (list []movingFlow, end func(), err error) {
	list, err = d.connectionFlow(s)
	begun := 0
	end = func() {
		for _, x := range list[:begun] {
			x.EndMove(x.flow)
		}
	}
	for _, x := range list {
		if err == nil {
			if err = x.BeginMove(x.flow); err == nil {
				begun++
			}
		}
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	return list, end, nil
}

// moveToKernel moves a connection into the kernel. On an error it stays in the stack.
func (d *driver) moveToKernel(k *ring.Sink, s *ring.Socket, o moveOrder) error {
	list, end, err := d.beginMove(s)
	if err != nil {
		return err
	}
	defer end()
	x, err := d.tcp.streams.Export(s)
	if err != nil {
		return err
	}
	// The kernel is not to enlarge the buffers: what it queues must find room here when the connection returns.
	c, err := repair.Create(&repair.State{Snapshot: x.Snapshot, Received: x.Received, Sent: x.Sent, Unsent: x.Unsent,
		BufferLock: unix.SOCK_BUF_LOCK_MASK})
	if err != nil {
		return errors.Join(err, d.tcp.streams.Resume(s))
	}
	// Before the socket is activated: it sends at once, and must get the answers.
	for _, x := range list {
		if err == nil {
			err = x.PassMoved(x.flow)
		}
	}
	fd := -1
	if err == nil {
		fd, err = c.Activate()
	}
	if err != nil {
		for _, x := range list {
			x.StopPassing(x.flow) // of one that did not pass it changes nothing
		}
		return errors.Join(err, c.Discard(), d.tcp.streams.Resume(s))
	}
	was, err := d.tcp.streams.Discard(s)
	if err != nil {
		return errors.Join(err, unix.Close(fd)) // cannot be: Export has stopped it
	}
	d.tcp.moves.moved[s] = &movedStream{below: was.Below, settings: x.Settings, asked: o.asked}
	d.tcp.moves.toKernel++
	ring.SetTransport(s, d.tcp.ports.streams, ring.Conn(fd))
	if err := d.attachKernelStream(s, o.why); err != nil {
		k.Failed(s, unix.ENOMEM) // the inner driver could not be made
		return nil
	}
	if was.Reading {
		err = d.tcp.viaKernel.SetReceiving(s, true)
	}
	if was.WantsRoom && err == nil {
		err = d.tcp.viaKernel.NotifyWritable(s)
	}
	if err != nil {
		k.Failed(s, errnoOf(err))
		return nil
	}
	k.Move(s, d.tcp.ports.streams, ring.Conn(fd))
	d.shadows.LookSoon()
	return nil
}

// errnoOf is the errno in an error's chain, EIO if there is none.
func errnoOf(err error) unix.Errno {
	e := unix.Errno(0)
	if errors.As(err, &e) {
		return e
	}
	return unix.EIO
}

// moveToStack moves a connection out of the kernel. On an error it stays there.
func (d *driver) moveToStack(k *ring.Sink, s *ring.Socket) error {
	m := d.tcp.moves.moved[s]
	doing := epoll.ActivityOf(d.tcp.viaKernel.Driver, s)
	switch {
	case doing.Over:
		return repair.ErrState
	case doing.Sending: // the kernel has a part of a packet, and the inner driver the rest
		return unix.EINPROGRESS
	}
	list, end, err := d.beginMove(s)
	if err != nil {
		return err
	}
	defer end()
	fd := int(ring.HandleOf(s).Conn)
	f, err := repair.Freeze(fd)
	if err != nil {
		return err
	}
	x := stream.Moving{Snapshot: f.State.Snapshot, Received: f.State.Received, Sent: f.State.Sent, Unsent: f.State.Unsent}
	agreed := x.Settings
	x.Settings = m.settings // what the kernel has no option for too
	x.Settings.SACK, x.Settings.Timestamps, x.Settings.WindowScale = agreed.SACK, agreed.Timestamps, agreed.WindowScale
	c, err := d.tcp.streams.Import(s, &x, m.below)
	if err != nil {
		return errors.Join(err, f.Resume())
	}
	d.tcp.viaKernel.Detach(s)
	d.table.remove(d.table.of(s))
	_ = f.Close() // nothing is sent
	for _, x := range list {
		x.StopPassing(x.flow)
	}
	delete(d.tcp.moves.moved, s)
	d.tcp.moves.toStack++
	k.Move(s, d.tcp.streams, c)
	if doing.Receiving {
		d.tcp.streams.SetReceiving(s, true)
	}
	if doing.AwaitsRoom {
		d.tcp.streams.NotifyWritable(s)
	}
	return nil
}

// scanMoves orders the moves that interfaces and routes ask for.
func (d *driver) scanMoves() {
	m := &d.tcp.moves
	m.lostSince = d.lostInterfaces()
	found := false
	d.tcp.streams.EachSocket(func(s *ring.Socket) {
		if ring.HandleOf(s).Kind == ring.KindStream && !ring.IsConnecting(s) {
			if why := d.leavesStack(s); why != "" {
				found = true
				d.tcp.moves.add(s, moveOrder{toKernel: true, why: movedReason(why)})
			}
		}
	})
	for s, x := range m.moved {
		if !x.asked && !x.stays && d.returnsToStack(s) {
			d.tcp.moves.add(s, moveOrder{})
		}
	}
	switch {
	case found && len(m.lostSince) > 0:
		m.scanAt = d.turn.now.Add(moveRetry)
	case len(m.lostSince) > 0:
		m.scanAt = d.turn.now.Add(min(moveScan, d.moveAfter()))
	case len(m.moved) > 0:
		m.scanAt = d.turn.now.Add(moveRetry)
	default:
		m.scanAt = 0
	}
}

// lostInterfaces are the interfaces of the ring by which it has no frames now, each with the time of the scan that found it so first. An
// interface has several attachments if it is a bond: it is lost when they all are.
func (d *driver) lostInterfaces() map[int]clock.Time {
	lost, carries := map[int]clock.Time{}, map[int]bool{}
	for _, x := range d.nics.Statuses() {
		if x.Why.Code == "" && !x.HandedOver {
			carries[x.IfIndex] = true
		} else if since, was := d.tcp.moves.lostSince[x.IfIndex]; was {
			lost[x.IfIndex] = since
		} else {
			lost[x.IfIndex] = d.turn.now
		}
	}
	maps.DeleteFunc(lost, func(ifIndex int, _ clock.Time) bool { return carries[ifIndex] })
	return lost
}

// kernelRoute is the interface by which the kernel sends to a connection's peer.
func (d *driver) kernelRoute(s *ring.Socket) (l host.Link, ok bool) {
	t := d.below.snapshot()
	w, err := t.Route(host.Query{Target: s.RemoteAddr().Addr().Unmap(), Source: s.LocalAddr().Addr().Unmap(), Interface: d.nics.CurrentIndex(s.Device())})
	if err != nil {
		return l, false
	}
	return t.Link(w.Interface)
}

// leavesStack is why a connection of the stack is to move into the kernel; empty if it is not.
func (d *driver) leavesStack(s *ring.Socket) string {
	l, ok := d.kernelRoute(s)
	switch {
	case !ok || !l.Up() || !l.Carrier():
		return "" // the kernel has no way either
	case !d.nics.Has(l.Index):
		return "its route leads over " + l.Name + ", which is no link of the ring"
	}
	if since, lost := d.tcp.moves.lostSince[l.Index]; lost && d.turn.now.Sub(since) >= d.moveAfter() {
		return l.Name + " carries no frames of the ring for " + d.turn.now.Sub(since).Round(clock.Second).String()
	}
	return ""
}

// returnsToStack reports whether the stack can have a connection again.
func (d *driver) returnsToStack(s *ring.Socket) bool {
	l, ok := d.kernelRoute(s)
	if !ok || !d.nics.Has(l.Index) {
		return false
	}
	_, lost := d.tcp.moves.lostSince[l.Index]
	return !lost
}
