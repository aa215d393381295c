package feed

// phase is what is being done about a hole.
type phase uint8

const (
	waiting phase = iota // another line may fill it
	asking               // the recovery server is asked for it
	givenUp              // it is skipped as soon as it is the first one
)

// hole is a range of messages that are known to exist and are not here.
type hole struct {
	Range
	since    int64   // when it was noticed
	after    int64   // when the newest packet in front of it arrived
	behind   int64   // when the packet behind it arrived, with which it was noticed
	pace     float64 // ns a message in front of it; 0: not known
	arrivals uint64  // packets received by then
	asked    uint64  // end of the range that was asked for last; From or less if none is outstanding
	nextAt   int64   // when the answer is overdue, or when to ask
	attempts int     // how often the part that begins with From was asked for
	phase    phase
	cause    Cause // with givenUp: why
}

// isOutstanding reports whether a part of the hole was asked for and its answer may still come in time.
func (h *hole) isOutstanding(now int64) bool {
	return h.phase == asking && h.asked > h.From && h.nextAt > now
}

// holes is the open holes in ascending order, without overlap.
type holes struct {
	h []hole // of fixed length
	n int
}

// room reports whether there is room for the two holes that one segment can add: one by splitting a hole, one behind all.
func (q *holes) room() bool { return q.n+2 <= len(q.h) }

// append adds the newest hole, behind all others.
func (q *holes) append(h hole) {
	q.h[q.n] = h
	q.n++
}

// fill takes [from,to) out of the holes, because these messages have arrived, and returns how many of them were missing. The rest of a hole
// whose request is answered may be asked for at once: that is so if all that was asked for has arrived, or with whole, which says that the
// server answers each request with one packet and no other will follow.
func (q *holes) fill(from, to uint64, now int64, whole bool) (filled uint64) {
	for i := 0; i < q.n; {
		h := &q.h[i]
		a, b := max(h.From, from), min(h.To, to)
		if h.From >= to {
			break
		}
		if a >= b {
			i++
			continue
		}
		filled += b - a
		switch {
		case a == h.From && b == h.To:
			copy(q.h[i:q.n-1], q.h[i+1:q.n])
			q.n--
			continue
		case a == h.From:
			h.From = b
			if h.phase == asking && h.attempts > 0 && (whole || h.From >= h.asked) {
				h.asked, h.attempts, h.nextAt = h.From, 0, now
			}
		case b == h.To:
			h.To = a
		default:
			copy(q.h[i+2:q.n+1], q.h[i+1:q.n])
			q.n++
			q.h[i+1] = *h
			q.h[i+1].From = b
			h.To = a
			i++
		}
		i++
	}
	return filled
}

// dropBefore removes the holes below to, and the part of a hole below it, because they were given up.
func (q *holes) dropBefore(to uint64) {
	k := 0
	for k < q.n && q.h[k].To <= to {
		k++
	}
	copy(q.h, q.h[k:q.n])
	q.n -= k
	if q.n > 0 && q.h[0].From < to {
		q.h[0].From = to
	}
}

// split divides hole i at a message within it, if there is room for one hole more beside what the next segment may need.
func (q *holes) split(i int, at uint64) bool {
	if q.n+3 > len(q.h) {
		return false
	}
	copy(q.h[i+2:q.n+1], q.h[i+1:q.n])
	q.n++
	q.h[i+1] = q.h[i]
	q.h[i].To, q.h[i+1].From = at, at
	q.h[i].asked = min(q.h[i].asked, at)
	return true
}
