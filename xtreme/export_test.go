package xtreme

// The pages of feeds.
type (
	FeedPage = feedPage
	LinePage = linePage
)

// HoldLock takes the engine's lock until the returned function is called.
func (e *Engine) HoldLock() (release func()) {
	e.mu.Lock()
	return e.mu.Unlock
}
