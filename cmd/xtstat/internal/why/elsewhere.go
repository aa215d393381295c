package why

import (
	"fmt"
	"slices"
	"time"

	"github.com/socketxtreme/socketxtreme/stats"
)

// Elsewhere says in a line each what was lost before and after the window, as far back as samples and journal reach: the cause that Explain
// would put first, when to look at it, and how many more there are. Where nothing was lost in the window Explain names the nearest event.
func (e *Evidence) Elsewhere() (lines []string) {
	if e.nothing {
		return nil
	}
	for _, x := range []struct {
		word string
		of   *Evidence
	}{{"earlier", e.before()}, {"later", e.after()}} {
		if s := x.of.largest(x.word); s != "" {
			lines = append(lines, s)
		}
	}
	return lines
}

// before is what is known of the time before the window. A sample that lies in both is the window's.
func (e *Evidence) before() *Evidence {
	n := 0
	for n < len(e.all) && e.all[n].Time.Before(e.From) {
		n++
	}
	begin := e.From
	if n > 0 {
		begin = e.all[0].Time.Add(-e.all[0].Interval)
	}
	if len(e.journal) > 0 && e.journal[0].Time.Before(begin) {
		begin = e.journal[0].Time
	}
	return e.other(e.all[:n], begin, e.From.Add(-1))
}

// after is what is known of the time behind the window.
func (e *Evidence) after() *Evidence {
	n := len(e.all)
	for n > 0 && e.all[n-1].Time.Add(-e.all[n-1].Interval).After(e.To) {
		n--
	}
	rest := slices.Clone(e.all[max(0, n-1):])
	end := e.To
	if len(rest) > 0 {
		rest[0].Number = 0 // it is the window's, and only what the others are compared with
		end = rest[len(rest)-1].Time
	}
	if n := len(e.journal); n > 0 && e.journal[n-1].Time.After(end) {
		end = e.journal[n-1].Time
	}
	return e.other(rest, e.To.Add(1), end)
}

// other is the same process's evidence of another window.
func (e *Evidence) other(samples []stats.Sample, from, to time.Time) *Evidence {
	x := Gather(samples, e.journal, from, to)
	x.Joined, x.JoinedOn, x.Listens, x.Lines, x.Homeless = e.Joined, e.JoinedOn, e.Listens, e.Lines, e.Homeless
	return x
}

// largest says which cause has lost most, and how many more there are; empty for none. What took the way through the kernel is told of where
// nothing was lost; what a receive callback drops, which may be its filter, is not.
func (e *Evidence) largest(word string) string {
	var first *Finding
	more := 0
	list := Explain(e)
	for i := range list {
		f := &list[i]
		switch {
		case f.BecauseOf != 0 || f.begin().IsZero() || f.kind == aboutOthers || f.kind == aboutCallback || f.Count == 0 && f.kind != aboutLink && f.kind != aboutGroup:
		case first == nil:
			first = f
		case first.diverts() && !f.diverts():
			first, more = f, more+1
		default:
			more++
		}
	}
	if first == nil {
		return ""
	}
	verb, layout := "lost ", time.TimeOnly
	if first.diverts() {
		verb = ""
	}
	if e.reach(first) > 12*time.Hour {
		layout = "2006-01-02T15:04:05"
	}
	at := first.begin().Format(layout)
	what := string(first.Place)
	if first.Count > 0 {
		what = fmt.Sprintf("%d %s (%s)", first.Count, first.Unit, first.Place)
	}
	text := fmt.Sprintf("also %s%s: %s, %s: xtstat why --at %s", verb, word, at, what, at)
	if more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// reach is how far a finding is from the end of what is known.
func (e *Evidence) reach(f *Finding) time.Duration {
	if len(e.journal) == 0 {
		return e.To.Sub(f.begin())
	}
	return e.journal[len(e.journal)-1].Time.Sub(f.begin())
}

// diverts reports whether packets of the finding are late, not lost.
func (f *Finding) diverts() bool { return f.kind == aboutQueue || f.kind == aboutProgram }
