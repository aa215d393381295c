package xdp

import (
	"fmt"
	"sync"
	"time"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// The kernel tells nobody that a program was taken off an interface: of a bpf link it sends no RTM_NEWLINK, neither when it is attached nor
// when it is detached (6.18, generic and native). Asking takes the lock of its configuration. So one goroutine of the process asks for all
// programs, and Check reports what it found last: a ring's Poll never waits for that lock.
//
//	prober   asks for each attached program, every probeEvery ──► Program.lost ──► Program.OnLost
//	Check    reads it

// probeEvery is how long a lost program may go unnoticed: as long as changes of interfaces, so that the journal has both in their order. An
// answer takes 1.4 µs.
const probeEvery = 10 * time.Millisecond

type prober struct {
	mu       sync.Mutex
	programs map[*Program]struct{}
	end      chan struct{} // not nil while it runs
}

var attached = prober{programs: map[*Program]struct{}{}}

// add has the kernel asked about a program from now on. The first program starts the goroutine.
func (x *prober) add(p *Program) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.programs[p] = struct{}{}
	if x.end == nil {
		x.end = make(chan struct{})
		go x.run(x.end)
	}
}

// remove ends the asking about a program. With the last program the goroutine ends.
func (x *prober) remove(p *Program) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.programs, p)
	if len(x.programs) == 0 && x.end != nil {
		close(x.end)
		x.end = nil
	}
}

// run is the goroutine: it probes each attached program every probeEvery, until end is closed. It holds no lock while it probes, since a
// probe may wait for the kernel.
func (x *prober) run(end chan struct{}) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	var list []*Program
	for {
		select {
		case <-end:
			return
		case <-tick.C:
		}
		list = list[:0]
		x.mu.Lock()
		for p := range x.programs {
			list = append(list, p)
		}
		x.mu.Unlock()
		for i, p := range list {
			p.probe()
			list[i] = nil
		}
	}
}

// probe asks the kernel whether the program is attached. It may wait for the lock of the kernel's configuration. Any goroutine.
func (p *Program) probe() {
	p.linkMu.Lock()
	defer p.linkMu.Unlock()
	if p.link == nil {
		return // closed meanwhile
	}
	info, err := p.link.Info()
	switch {
	case err != nil:
		err = fmt.Errorf("xdp: asking for the program's link: %w", err)
	default:
		// The kernel clears the interface of a link whose interface went away or that was detached by force (bpf_xdp_link_fill_link_info).
		if x := info.XDP(); x == nil || int(x.Ifindex) != p.index {
			err = fmt.Errorf("xdp: the program is no longer on interface %d: %w", p.index, link.ErrDetached)
		}
	}
	if err == nil {
		p.lost.Store(nil)
		return
	}
	was := p.lost.Swap(&err)
	if do := p.onLost.Load(); was == nil && do != nil {
		(*do)()
	}
}
