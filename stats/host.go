package stats

import "sync/atomic"

// The block of section host has a place for each counter that the kernel, cards, links and steering programs have by a name of their own. A
// sample has the same places. A name keeps its place while there is room. Without room a new name gets the place of the counter that was stored
// longest ago and is not stored any more: one of an interface that is gone.

// hostPlaces is which names have which places. By the sampler's goroutine.
type hostPlaces struct {
	byName   map[string]*hostPlace
	turn     uint64 // of BeginHost
	homeless int    // counters of this turn that have no place
}

type hostPlace struct {
	at   int
	turn uint64 // in which it was stored last, or ofDriver
}

// ofDriver is the turn of a counter that a driver stores. It keeps its place: when its ring is closed the last value stays.
const ofDriver = ^uint64(0)

// BeginHost begins a turn of SetHost: counters that are not stored in it are those of things that are gone. By the function of OnTick alone.
func (f *File) BeginHost() {
	p := &f.places
	f.host.SetCount(len(p.byName) + p.homeless)
	p.homeless = 0
	p.turn++
}

// SetHost stores a counter of section host. By the function of OnTick alone. A counter without a place is not stored; View.Unnamed counts it.
func (f *File) SetHost(name string, value uint64) { f.storeHost(name, value, f.places.turn) }

func (f *File) storeHost(name string, value, turn uint64) {
	p := &f.places
	x := p.byName[name]
	if x == nil {
		if x = p.add(f, name); x == nil {
			p.homeless++
			f.host.SetCount(max(len(p.byName)+p.homeless, int(f.host.words[blockCount])))
			return
		}
	}
	x.turn = turn
	f.host.SetNamed(x.at, name, value)
}

// add finds a place for a name; nil: all are in use.
func (p *hostPlaces) add(f *File, name string) *hostPlace {
	x := &hostPlace{at: len(p.byName)}
	if x.at < f.host.section.layout.Width {
		p.byName[name] = x
		f.host.SetCount(x.at + 1)
		return x
	}
	oldest, of := p.turn, ""
	for n, o := range p.byName {
		if o.turn != ofDriver && o.turn+1 < oldest { // in the turn before it was not stored
			oldest, of, x = o.turn+1, n, o
		}
	}
	if of == "" {
		return nil
	}
	delete(p.byName, of)
	p.byName[name] = x
	f.clearSamples(x.at) // before the name changes: old values are not of the new name
	return x
}

// clearSamples makes a place of the host's block zero in all samples.
func (f *File) clearSamples(place int) {
	l := &f.desc.Samples
	for i := range l.Capacity {
		atomic.StoreUint64(&f.words[l.Offset+i*l.Words+sampleHeader+len(f.desc.Columns)+place], 0)
	}
}
