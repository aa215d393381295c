package buffers

// Check reports whether pk is a live packet of this pool: nil, ErrNone, ErrOtherPool or ErrStale. It changes and counts nothing; for
// callers that look at all before they release any. Owner goroutine.
func (p *Pool) Check(pk Packet) error {
	switch {
	case pk.pool == nil:
		return ErrNone
	case pk.pool != p:
		return ErrOtherPool
	case p.meta[pk.head].gen != pk.gen:
		return ErrStale
	}
	return nil
}
