package offload

import (
	"testing"

	"github.com/socketxtreme/socketxtreme/ring"
)

// WithoutFastPath has all received frames take the way of the unusual ones until the test ends.
func WithoutFastPath(t *testing.T) {
	noFastPath = true
	t.Cleanup(func() { noFastPath = false })
}

// TakeSegment gives a driver an IPv4 packet with a segment, as another ring of its exchange does that has received it.
func TakeSegment(d ring.Driver, packet []byte) {
	o := d.(*driver)
	o.takeSegment(o.turn.source(), 0, packet)
}
