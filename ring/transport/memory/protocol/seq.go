package protocol

// Seq is a sequence number: it wraps, so it has an order among its neighbours only (RFC 9293 section 3.4).
type Seq uint32

// Before reports whether a comes before b.
func (a Seq) Before(b Seq) bool { return int32(a-b) < 0 }

// Add is n places further.
func (a Seq) Add(n int) Seq { return a + Seq(n) }

// Minus is how many places a is behind b, negative when it comes before.
func (a Seq) Minus(b Seq) int { return int(int32(a - b)) }
