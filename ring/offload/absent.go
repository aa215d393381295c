package offload

import (
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// absent takes the place of a link that was lost, until another is opened: it carries nothing, so that the driver's loops need no test for nil.
type absent struct {
	info link.Info
	path link.Path
}

var _ link.Link = (*absent)(nil)

func absentFor(l link.Link) *absent { return &absent{info: l.Info(), path: l.Path()} }

func (a *absent) Info() link.Info                            { return a.info }
func (a *absent) Caps() link.Caps                            { return 0 }
func (a *absent) Path() link.Path                            { return a.path }
func (a *absent) Receive([]link.Frame) int                   { return 0 }
func (a *absent) Send([]link.Out) int                        { return 0 }
func (a *absent) Flush() error                               { return nil }
func (a *absent) Complete([]link.Done) int                   { return 0 }
func (a *absent) Unsent() int                                { return 0 }
func (a *absent) Pending() bool                              { return false }
func (a *absent) FD() int                                    { return -1 }
func (a *absent) Arm() bool                                  { return false }
func (a *absent) Disarm()                                    {}
func (a *absent) Check() error                               { return link.ErrDetached }
func (a *absent) Stats() link.Stats                          { return link.Stats{} }
func (a *absent) Counters(dst []link.Counter) []link.Counter { return dst }
func (a *absent) Close() error                               { return nil }
func (a *absent) Why(link.Caps) link.Reason {
	return link.Reason{Code: "link.detached", Text: "the link was lost and carries nothing"}
}

// formerCounts are the sums of what earlier links in a place counted, so that the place's counts never go back.
type formerCounts struct {
	stats    link.Stats
	counters []link.Counter
}

// add adds the counts of a link that is closed.
func (p *formerCounts) add(l link.Link) {
	p.stats = p.sum(l.Stats())
	p.counters = p.join(l.Counters(nil))
}

// sum is s, the statistics of the link that is there now, with those of earlier ones added.
func (p *formerCounts) sum(s link.Stats) link.Stats {
	s.RxFrames += p.stats.RxFrames
	s.RxBytes += p.stats.RxBytes
	s.RxLost += p.stats.RxLost
	s.TxFrames += p.stats.TxFrames
	s.TxBytes += p.stats.TxBytes
	s.TxLost += p.stats.TxLost
	s.Kicks += p.stats.Kicks
	return s
}

// join adds the counters of earlier links to those in list by name.
func (p *formerCounts) join(list []link.Counter) []link.Counter {
	for _, c := range p.counters {
		found := false
		for i := range list {
			if list[i].Name == c.Name {
				list[i].Value += c.Value
				found = true
			}
		}
		if !found {
			list = append(list, c)
		}
	}
	return list
}
