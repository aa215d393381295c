package link

// Staged is a link that is opened and closed in parts, so that the long ones need not be its owner's, who polls meanwhile:
//
//	another goroutine     owner                      another goroutine     owner
//	opened ─────────────► Start ··· use ··· Stop ──► Shut ───────────────► Retire
//
// Close is all of the end in one, in any part of its life; one that was not started, any goroutine may close.
type Staged interface {
	Link
	// Start gives the card its buffers, none of which were taken before, and lets frames come. On an error the link is closed.
	Start() error
	// Stop ends receiving and sending. The card keeps the buffers that it has.
	Stop()
	// Shut waits until the kernel has let go of the link, and touches no buffer.
	Shut() error
	// Retire returns the buffers, but for frames with a token that were not sent: Complete reports those, and until then they have theirs.
	Retire() error
}
