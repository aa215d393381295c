package offload

// pathChanges are the changes of paths that sockets are to be told of, by the event PATH.
type pathChanges struct {
	notify   bool              // there are some, for the end of the turn
	changed  []int             // interfaces whose sockets are to receive PATH
	reported map[string]string // what was reported last of each interface (Config.LinkChanged)
}

// note has a socket receive PATH.
func (p *pathChanges) note(e *entry) { e.notifyPath, p.notify = true, true }

// noteInterfaces has the sockets on these interfaces receive PATH.
func (p *pathChanges) noteInterfaces(ifIndexes []int) {
	p.changed = append(p.changed, ifIndexes...)
	p.notify = true
}

// isNews reports whether what an interface is now is another thing than what was reported last, and notes it as reported.
func (p *pathChanges) isNews(name, what string) bool {
	if p.reported[name] == what {
		return false
	}
	if p.reported == nil {
		p.reported = map[string]string{}
	}
	p.reported[name] = what
	return true
}
