package offload

import "testing"

// WithoutFastPath has all received frames take the way of the unusual ones until the test ends.
func WithoutFastPath(t *testing.T) {
	noFastPath = true
	t.Cleanup(func() { noFastPath = false })
}
