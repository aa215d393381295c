package simnet

import (
	"errors"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
)

// send sends one datagram of an operation.
func (j *judge) send(o *op) {
	k := j.at(o.host, o.slot)
	if k == nil {
		return
	}
	to, direct := o.to, k.remote.IsValid()
	if direct {
		to = k.remote
	}
	id := len(j.posted)
	b := j.buf[:o.size]
	content(b, id)
	j.posted = append(j.posted, datagram{from: k, to: to, length: o.size})
	var err error
	arg := to
	if direct {
		arg = netip.AddrPort{}
	}
	switch o.how {
	case byPacket:
		var p buffers.Packet
		if p, err = j.w.hosts[o.host].pool.Alloc(o.size); err != nil {
			err = ring.ErrWouldBlock // the pool is empty: nothing was taken
			break
		}
		copy(p.Room(), b)
		if err = k.s.SendPacket(p, arg, uint64(id)+1); err == nil {
			k.tokens[uint64(id)+1] = true
		} else if p.Release() != nil {
			j.fail("ledger", "%v: SendPacket refused a packet and kept it", k)
		}
		k.wantOut = k.wantOut || errors.Is(err, ring.ErrWouldBlock)
	case byVector:
		_, err = k.s.SendVector([][]byte{b[:5], b[5:]}, arg)
		k.wantOut = k.wantOut || errors.Is(err, ring.ErrWouldBlock)
	default:
		if direct {
			_, err = k.s.Send(b)
		} else {
			_, err = k.s.SendTo(b, to)
		}
		k.wantOut = k.wantOut || errors.Is(err, ring.ErrWouldBlock)
	}
	a := &j.hosts[o.host]
	switch {
	case err == nil:
		a.accepted++
		j.loops(k, id, to, o.size, o.how)
		return
	case errors.Is(err, ring.ErrWouldBlock):
		a.blocked++
	case errors.Is(err, unix.EMSGSIZE) && o.size > j.w.hosts[o.host].nics[0].mtu-28:
	default:
		j.fail("send", "%v: %v", k, err)
	}
	j.posted = j.posted[:id]
}

// loops notes what a datagram for the host's own sockets leads to.
func (j *judge) loops(k *sockState, id int, to netip.AddrPort, size, how int) {
	a := &j.hosts[k.host]
	group := to.Addr().IsMulticast()
	switch {
	case group && how == byPacket && size > j.w.hosts[k.host].nics[0].mtu-28: // SENT will tell
		return
	case group && k.loop:
		in := func(x *sockState) bool { return x != nil && x.group == to.Addr() }
		if slices.ContainsFunc(j.places[k.host][:], in) || slices.ContainsFunc(j.lingering[k.host], in) {
			j.expect(k.host, k.host, id, j.w.now, netip.AddrPortFrom(addrOf(k.host), k.local.Port()), to)
		}
	case !group && to.Addr() == addrOf(k.host):
		a.looped++
		j.expect(k.host, k.host, id, j.w.now, netip.AddrPortFrom(addrOf(k.host), k.local.Port()), to)
	}
}
