package offload

import (
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// record records the n frames that link i has received into d.frames, before the stack is given them; room is how many there was room for.
// recordDrops completes the records, if this has begun them. While the recorder is off one word is read.
func (d *driver) record(i, n, room int) (begun bool) {
	tap := d.links[i].tap
	if !tap.IsOn() {
		return false
	}
	tap.Received(d.burst.frames[:n], room)
	return true
}

// recordDrops completes the records of the n frames that link i has received: the stack was given those from number first on, and dropped some.
func (d *driver) recordDrops(i, first, n int) {
	tap := d.links[i].tap
	for j := range n - first {
		if why := d.ip.Dropped(j); why != wire.Accept {
			tap.Dropped(first+j, why)
		}
	}
	tap.Commit()
}

// sendFrames gives frames to link i and records those that it takes. All are copied into the recorder before, because the link may change them.
func (d *driver) sendFrames(i int, out []link.Out) (took int) {
	l, tap := d.links[i].Link, d.links[i].tap
	if !tap.IsOn() {
		return l.Send(out)
	}
	tap.Sending(out)
	took = l.Send(out)
	tap.Sent(took)
	return took
}

// path is the link's, with the reason that its frames are captured.
func (l *placedLink) path() link.Path {
	p := l.Link.Path()
	p.Reasons = append(p.Reasons[:len(p.Reasons):len(p.Reasons)], l.tap.Reasons()...)
	return p
}
