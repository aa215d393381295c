package nic

import (
	"errors"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// Fixed is a link that the caller has made, at one of the first places of the flat list. It is checked as those of attachments are, and closed
// with them, but not opened again when it is lost.
type Fixed struct {
	Link    link.Link
	IfIndex int
	VLAN    uint16        // of the frames' tag; 0: untagged
	Path    []link.Reason // reasons of the caller's choice, for socket paths
}

// fixedLink is a Fixed and its state; its place in the flat list is its index.
type fixedLink struct {
	Fixed
	lost    link.Reason // why it carries nothing; empty while it does
	changed bool
}

// checkFixed notices fixed links that were lost or came back.
func (a *Attachments) checkFixed() (changed bool) {
	for place := range a.fixed {
		f := &a.fixed[place]
		err := f.Link.Check()
		if (err != nil) == (f.lost.Code != "") {
			continue
		}
		if f.lost = (link.Reason{}); err != nil {
			f.lost = link.Reason{Code: "link.detached", Text: err.Error()}
		}
		f.changed, changed = true, true
		a.events.LinkDown(place, Down{Link: err != nil})
	}
	return changed
}

// fixedStatuses is the part of Statuses for links that the caller made.
func (a *Attachments) fixedStatuses() (list []Status) {
	for place := range a.fixed {
		f := &a.fixed[place]
		name := f.Link.Info().Name
		list = append(list, Status{Interface: Interface{Name: name, On: name, Path: f.Path}, IfIndex: f.IfIndex, Places: []int{place},
			Clock: f.Link.Path().Clock, Why: f.lost})
	}
	return list
}

// closeFixed closes the links that the caller made.
func (a *Attachments) closeFixed() (err error) {
	for i := range a.fixed {
		err = errors.Join(err, a.fixed[i].Link.Close())
	}
	a.fixed = nil
	return err
}
