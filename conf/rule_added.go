package conf

import "slices"

// insert puts a rule that is added at run time into the current group, at the head of its list or, with atEnd, at the end. Of equal rules
// only the first is ever reached. So a rule at the end is left out where there is an equal one, and a rule at the head replaces an equal one
// that was added before. Rules of the file are not removed.
func (r *Rules) insert(rule Rule) {
	list := r.listFor(rule)
	if rule.atEnd {
		if !slices.ContainsFunc(*list, rule.equals) {
			*list = append(*list, rule)
		}
		return
	}
	*list = slices.DeleteFunc(*list, func(o Rule) bool { return o.Line == 0 && rule.equals(o) })
	*list = slices.Insert(*list, 0, rule)
}

// equals reports whether two rules of one role match the same sockets and give the same answer.
func (r Rule) equals(o Rule) bool {
	if r.Transport != o.Transport || r.First != o.First || (r.Second == nil) != (o.Second == nil) {
		return false
	}
	return r.Second == nil || *r.Second == *o.Second
}

// WithAdded returns a copy of r, the rules of a file that was read again, that also has what With added to old. Each added rule goes to the
// group of the same program and id as before, at its head or its end as before. Where the file has that group no more, it is appended. A later
// With without an application-id line adds to the group that the last one added to, whichever group the file names last.
func (r *Rules) WithAdded(old *Rules) *Rules {
	c := r.clone()
	if !old.added {
		return c
	}
	c.added = true
	for _, g := range old.groups {
		if g.added { // also if it has no rule yet
			c.selectGroup(g.Program, g.ID, true)
		}
		for _, list := range g.rules {
			for i := range list { // those of the head in reverse order, because each is inserted before the others
				if rule := list[len(list)-1-i]; rule.Line == 0 && !rule.atEnd {
					c.selectGroup(g.Program, g.ID, true)
					c.insert(rule)
				}
			}
			for _, rule := range list {
				if rule.Line == 0 && rule.atEnd {
					c.selectGroup(g.Program, g.ID, true)
					c.insert(rule)
				}
			}
		}
	}
	if len(old.groups) > 0 {
		g := old.groups[old.current]
		c.selectGroup(g.Program, g.ID, true)
	}
	return c
}
