package udp

// LoopLimit is loopLimit for tests.
const LoopLimit = loopLimit

// Stopped reports whether the socket is marked as one that does not read.
func (u *Protocol) Stopped(id ID) bool { return u.table.Stopped(id) }

// Number is the stack's in the directory.
func (u *Protocol) Number() int32 { return u.number }
