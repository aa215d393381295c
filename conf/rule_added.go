package conf

import "slices"

// insert puts a rule that is added at run time into the current group. Of equal ones that which is tried first stays: later ones are
// never reached. What stands in the file is left alone.
func (r *Rules) insert(rule Rule) {
	list := r.list(rule)
	if rule.atEnd {
		if !slices.ContainsFunc(*list, rule.same) {
			*list = append(*list, rule)
		}
		return
	}
	*list = slices.DeleteFunc(*list, func(o Rule) bool { return o.Line == 0 && rule.same(o) })
	*list = slices.Insert(*list, 0, rule)
}

// same reports whether two rules of a role say the same of the same calls.
func (r Rule) same(o Rule) bool {
	if r.Transport != o.Transport || r.First != o.First || (r.Second == nil) != (o.Second == nil) {
		return false
	}
	return r.Second == nil || *r.Second == *o.Second
}

// WithAdded is the rules, of a file that was read again, and what With added to old: each rule in the group of the program and id that it
// went to, at its head or end as then, and that group at the end of the list where the file has it no more. If With was called, what it
// adds next without an application-id goes where it went last, whichever group the file names last.
func (r *Rules) WithAdded(old *Rules) *Rules {
	c := r.clone()
	if !old.added {
		return c
	}
	c.added = true
	for _, g := range old.groups {
		if g.added {
			c.open(g.Program, g.ID, true)
		}
		for _, list := range g.rules {
			for i := range list { // the last of the head first: each goes before what is there
				if rule := list[len(list)-1-i]; rule.Line == 0 && !rule.atEnd {
					c.open(g.Program, g.ID, true)
					c.insert(rule)
				}
			}
			for _, rule := range list {
				if rule.Line == 0 && rule.atEnd {
					c.open(g.Program, g.ID, true)
					c.insert(rule)
				}
			}
		}
	}
	if len(old.groups) > 0 {
		g := old.groups[old.current]
		c.open(g.Program, g.ID, true)
	}
	return c
}
