package simnet

import (
	"errors"
	"fmt"
)

// Plug is what a cable can be put into: a *NIC, a *RawEnd, or a *Switch, which has as many ports as there are cables.
type Plug interface {
	// plug takes a line that leads away and says where one that comes in ends.
	plug(out *Line) (socketPlace, error)
	label() string
	home() *World
}

// Cable joins two plugs by a line each way.
type Cable struct {
	AB, BA *Line // from the first plug to the second, and back
}

// Set gives both directions the same impairment.
func (c *Cable) Set(m Impairment) error { return errors.Join(c.AB.Set(m), c.BA.Set(m)) }

// Connect puts a cable between two plugs. A second cable between the same two gets a number behind its lines' names.
func (w *World) Connect(a, b Plug) (*Cable, error) {
	if a == nil || b == nil {
		return nil, errors.New("simnet: connect: a plug is nil")
	}
	if a.home() != w || b.home() != w {
		return nil, fmt.Errorf("simnet: connect %s and %s: they are not both of this world", a.label(), b.label())
	}
	if a == b {
		return nil, fmt.Errorf("simnet: connect %s with itself", a.label())
	}
	c := &Cable{AB: w.newLine(a, b), BA: w.newLine(b, a)}
	for _, x := range []struct {
		from Plug
		out  *Line
		in   *Line
	}{{a, c.AB, c.BA}, {b, c.BA, c.AB}} {
		at, err := x.from.plug(x.out)
		if err != nil {
			return nil, err
		}
		x.in.to = at
	}
	for _, l := range []*Line{c.AB, c.BA} {
		w.lines = append(w.lines, l)
		w.lineNames[l.name] = true
		w.addTaps(l)
	}
	return c, nil
}

// newLine makes the line from plug a to plug b, with a name of its own: a second one between the same plugs gets a number.
func (w *World) newLine(a, b Plug) *Line {
	name := a.label() + ">" + b.label()
	for n := 2; w.lineNames[name]; n++ {
		name = fmt.Sprintf("%s>%s/%d", a.label(), b.label(), n)
	}
	return &Line{world: w, name: name, salt: w.Rand("line " + name).Uint64(), schedule: w.push}
}

// Lines are all lines of the world, in the order in which they were made.
func (w *World) Lines() []*Line { return w.lines }
