package epoll

import (
	"syscall"

	"github.com/socketxtreme/socketxtreme/ring"
)

// Hot sockets are read directly on every turn, without asking epoll first, while the ring spins: datagram sockets and connections
// alike, those that delivered last, and only while few are busy. Both ways read the same kernel queue, so a socket's order does
// not depend on which was taken.
//
// It saves an epoll_wait between arrival and delivery. A socket that stays hot is taken out of the epoll list altogether: then the
// sender's side does not pay for epoll's callback any more, nor this one for an entry that becomes ready and is found empty. Round
// trip of 64 bytes with a spinning C client, p50 in µs, against a C server of nothing but recvmsg (recv) and send (Linux 6.18, 2
// vCPU, alternating runs):
//
//	        C server    epoll only    hot    hot and out of the list
//	UDP       4.75         5.75      5.00             4.85
//	TCP       6.70         7.40      6.92             6.80
//
// With 8 to 256 connections in flight all are left to epoll and the rate is the same as without this (within 1 %).
const (
	maxHot = 4
	// unsharedAfter is after how many turns with data a hot socket is taken out of the epoll list. That costs an epoll_ctl, and so does leaving
	// the socket to epoll again.
	unsharedAfter = 16
	// demoteAfter is how many turns a hot socket may be found empty before it is left to epoll again.
	demoteAfter = 20000
	// replaceAfter is how many turns a hot socket must have been empty to make place for another.
	replaceAfter = 64
	// pauseBatches is for how many batches of epoll no socket becomes hot after more sockets were busy than there are places.
	pauseBatches = 4096
)

type hotSocket struct {
	r    *record
	s    *ring.Socket // another than r.s: the socket is gone
	hits int          // turns with something
	idle int          // turns without anything since
}

// promote makes a socket that has just delivered hot, if there is a place, or one whose socket was found empty for long. When all places have
// busy sockets, direct reading pauses: more sockets are busy than it is worth for.
func (d *driver) promote(r *record) {
	if r.hot || !r.wantsRead || d.directPause > 0 {
		return
	}
	place := d.numHot
	if place == maxHot {
		if place = d.coldest(); d.hot[place].idle < replaceAfter {
			d.pauseDirectReads()
			return
		}
		if d.demote(&d.hot[place]) != 0 {
			return
		}
	} else {
		d.numHot++
	}
	d.hot[place] = hotSocket{r: r, s: r.s}
	r.hot = true
}

// pauseDirectReads leaves all to epoll for a while: one question to it answers more than as many tries.
func (d *driver) pauseDirectReads() {
	d.directPause = pauseBatches
	_ = d.demoteAll() // sockets that epoll cannot watch stay hot
}

// coldest is the index of the hot socket that was found empty the longest.
func (d *driver) coldest() int {
	coldest := 0
	for i := range d.hot {
		if d.hot[i].idle > d.hot[coldest].idle {
			coldest = i
		}
	}
	return coldest
}

// readHot reads the hot sockets; when epoll was asked in this turn (asked), only those that epoll does not watch. They come after the batch,
// which cannot keep them out for long: sockets that deliver through epoll become hot too, or make direct reading pause.
func (d *driver) readHot(k *ring.Sink, asked bool) {
	for i := 0; i < d.numHot; {
		h := &d.hot[i]
		if h.r.s != h.s || !h.r.wantsRead || h.idle >= demoteAfter {
			if d.demote(h) == 0 {
				d.removeHot(i)
				continue
			}
			h.idle = 0
		}
		switch {
		case asked && !h.r.unshared:
		case k.Room() == 0:
			d.rotateHot(i)
			return
		case d.receive(k, h.r, 0):
			h.idle = 0
			if h.hits++; h.hits == unsharedAfter && h.r.s == h.s {
				h.r.unshared = true
				d.resync(h.r)
			}
		default:
			h.idle++
		}
		i++
	}
}

// rotateHot makes the sockets from index i on, for which the sink had no room, the first of the next turn.
func (d *driver) rotateHot(i int) {
	var turned [maxHot]hotSocket
	n := copy(turned[:], d.hot[i:d.numHot])
	copy(turned[n:], d.hot[:i])
	d.hot = turned
}

// demoteAll leaves all sockets to epoll, but those that the kernel refuses to watch.
func (d *driver) demoteAll() (err error) {
	for i := 0; i < d.numHot; {
		if e := d.demote(&d.hot[i]); e != 0 {
			err = wrap("watch", d.hot[i].r, e)
			i++
		} else {
			d.removeHot(i)
		}
	}
	return err
}

// removeHot takes the entry at index i out of the list of hot sockets.
func (d *driver) removeHot(i int) {
	d.numHot--
	d.hot[i] = d.hot[d.numHot]
	d.hot[d.numHot] = hotSocket{}
}

// demote leaves a hot socket to epoll. It fails when the kernel refuses to watch a socket that is to be read: then it must stay hot.
func (d *driver) demote(h *hotSocket) syscall.Errno {
	r := h.r
	if r.s != h.s {
		return 0
	}
	if r.unshared {
		r.unshared = false
		if e := d.sync(r); e != 0 && r.wantsRead {
			r.unshared = true
			return e
		}
	}
	r.hot = false
	return 0
}
