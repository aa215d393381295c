package tcp

// Seq is a sequence number (RFC 9293 section 3.4). It wraps at 2^32, so it has an order among numbers that are less than 2^31 apart only.
type Seq uint32

// Before reports whether a comes before b.
func (a Seq) Before(b Seq) bool { return int32(a-b) < 0 }

// Add is the number n places further.
func (a Seq) Add(n int) Seq { return a + Seq(n) }

// Minus is how many places a is behind b, negative when a comes before b.
func (a Seq) Minus(b Seq) int { return int(int32(a - b)) }

// in reports whether the number lies in [from, to).
func (a Seq) in(from, to Seq) bool { return a-from < to-from }

// maxSeq is the later of two numbers.
func maxSeq(a, b Seq) Seq {
	if a.Before(b) {
		return b
	}
	return a
}

// minSeq is the earlier of two numbers.
func minSeq(a, b Seq) Seq {
	if a.Before(b) {
		return a
	}
	return b
}
