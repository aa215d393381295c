package packetdrill

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Config says how a script is played.
type Config struct {
	// RemoteISN is added to the peer's sequence numbers. A script must play the same with any.
	RemoteISN uint32
	// Tolerance is added to the script's own.
	Tolerance time.Duration
	// PushOptional ignores the flag P of segments that leave.
	PushOptional bool
}

// Run plays a script. The error names the line, what was expected and what happened, and shows the segments before.
func Run(s *Script, subject Subject, c Config) error {
	r := &player{script: s, subject: subject, config: c, fds: map[int64]int{}, written: map[int]uint32{}, received: map[int]uint32{},
		tolerance: max(c.Tolerance, s.Tolerance)}
	r.numbers.remote = c.RemoteISN
	for i := range s.Statements {
		st := &s.Statements[i]
		if err := r.play(st); err != nil {
			return fmt.Errorf("%s:%d: %s\n\t%w%s", s.Name, st.Line, strings.TrimSpace(st.Text), err, r.history())
		}
	}
	r.drain()
	switch {
	case len(r.blocked) > 0:
		b := r.blocked[0]
		return fmt.Errorf("%s:%d: %s\n\tthe call has not returned at the end of the script%s", s.Name, b.statement.Line, b.statement.Text, r.history())
	case len(r.out) > 0:
		return fmt.Errorf("%s: at %v, which the script does not expect, left:\n\t%v%s", s.Name, seconds(r.out[0].at), r.show(r.out[0].p), r.history())
	}
	return r.err
}

type player struct {
	script    *Script
	subject   Subject
	config    Config
	tolerance time.Duration
	now       time.Duration
	last      time.Duration // the time of the statement before
	numbers   numbers
	fds       map[int64]int  // the subject's descriptors by the script's
	stream    int            // the descriptor that checks ask
	written   map[int]uint32 // bytes sent by descriptor
	received  map[int]uint32 // bytes received by descriptor
	out       []sent         // what has left and was not expected yet
	blocked   []*blockedCall // in the order in which they were made
	events    []string       // for errors
	err       error          // of a blocked call
}

type sent struct {
	at time.Duration
	p  Packet
}

type blockedCall struct {
	statement *Statement
	call      Invocation
	until     time.Duration
}

// note adds a line to the history that errors show: the last 24 events.
func (r *player) note(format string, args ...any) {
	if len(r.events) == 24 {
		r.events = slices.Delete(r.events, 0, 1)
	}
	r.events = append(r.events, fmt.Sprintf("%v ", seconds(r.now))+fmt.Sprintf(format, args...))
}

// history returns the last events as lines for an error.
func (r *player) history() string {
	if len(r.events) == 0 {
		return ""
	}
	return "\n\tbefore:\n\t\t" + strings.Join(r.events, "\n\t\t")
}

// seconds formats a time as scripts do.
func seconds(d time.Duration) string { return fmt.Sprintf("%.6f", d.Seconds()) }

// play executes one statement. Only of a segment that the subject sends the time may be a range or any: the parser refuses others. A call that
// blocks has two times, that of the call and that of its return.
func (r *player) play(st *Statement) error {
	from, to := st.When.From, st.When.To
	if st.When.Kind == Relative {
		from, to = r.last+from, r.last+to
	}
	if st.Segment != nil && !st.Inbound {
		if st.When.Kind == AnyTime {
			from, to = r.last, Never
		}
		return r.expect(st.Segment, from, to)
	}
	if from < r.now {
		return fmt.Errorf("the time is %v already", seconds(r.now))
	}
	if err := r.advance(from); err != nil {
		return err
	}
	r.last = from
	switch {
	case st.Segment != nil:
		p := r.numbers.inbound(st.Segment)
		p.Payload = fill(st.Segment.Seq-1, st.Segment.Length) // position 0 of the stream has sequence number 1, behind the SYN
		r.note("< %v", r.showInbound(st.Segment))
		r.subject.Input(r.now, p)
	case st.ICMP != nil:
		e := st.ICMP.Error
		e.Seq += r.numbers.local
		r.note("< icmp type %d code %d", e.Type, e.Code)
		r.subject.InputError(r.now, e)
	case st.Call != nil:
		return r.call(st, to)
	default:
		return r.check(st.Checks)
	}
	r.drain()
	return r.err
}

// advance moves the clock to a time, and lets the subject handle all its deadlines until then, those at that very time included.
func (r *player) advance(to time.Duration) error {
	for r.err == nil {
		due := r.subject.Deadline()
		if due > to {
			r.now = to
			return r.overdue()
		}
		if err := r.expire(due); err != nil {
			return err
		}
	}
	return r.err
}

// maxTurns bounds how often a subject may want to be called at one time.
const maxTurns = 1000

// expire lets the subject handle a deadline. A deadline that stays after many calls is an error.
func (r *player) expire(due time.Duration) error {
	r.now = max(r.now, due)
	for range maxTurns {
		r.subject.Expire(r.now)
		r.drain()
		if r.subject.Deadline() > r.now {
			return r.overdue()
		}
	}
	return fmt.Errorf("the subject's deadline stays %v after %d calls of Expire at that time", seconds(r.subject.Deadline()), maxTurns)
}

// drain reads the segments that the subject sends now, and tries blocked calls again.
func (r *player) drain() {
	for n := 0; ; n++ {
		p, ok := r.subject.Output(r.now)
		if !ok {
			break
		}
		if n == maxTurns {
			r.err = fmt.Errorf("more than %d segments leave at %v", maxTurns, seconds(r.now))
			return
		}
		r.note("> %v", r.show(p))
		r.out = append(r.out, sent{r.now, p})
	}
	for i := 0; i < len(r.blocked); i++ {
		b := r.blocked[i]
		res := r.subject.Call(r.now, b.call)
		if blocks(res) {
			continue
		}
		r.blocked = slices.Delete(r.blocked, i, i+1)
		if err := r.checkResult(b.statement, b.call, res); err == nil && r.now < b.until-r.tolerance {
			r.err = fmt.Errorf("line %d: %s: the call returned at %v, expected at %v", b.statement.Line, b.statement.Text, seconds(r.now),
				seconds(b.until))
		} else if err != nil {
			r.err = fmt.Errorf("line %d: %s: %w", b.statement.Line, b.statement.Text, err)
		}
		r.drain()
		return
	}
}

// overdue returns an error if a blocked call should have returned by now.
func (r *player) overdue() error {
	for _, b := range r.blocked {
		if r.now > b.until+r.tolerance {
			return fmt.Errorf("line %d: %s: the call has not returned at %v", b.statement.Line, b.statement.Text, seconds(r.now))
		}
	}
	return r.err
}

// blocks reports whether a call has the result of one that would block.
func blocks(x Result) bool {
	return x.Value == -1 && (x.Errno == "EAGAIN" || x.Errno == "EINPROGRESS" || x.Errno == "EALREADY")
}

// expect waits for the next segment that the subject sends, from from to to, and compares it.
func (r *player) expect(want *Segment, from, to time.Duration) error {
	latest := to
	if to != Never {
		latest += r.tolerance
	}
	for len(r.out) == 0 {
		due := r.subject.Deadline()
		if due > latest || due == Never {
			return fmt.Errorf("nothing leaves until %v; the subject's next deadline is %v", until(latest), until(due))
		}
		if err := r.expire(due); err != nil {
			return err
		}
	}
	if r.err != nil {
		return r.err
	}
	got := r.out[0]
	r.out = r.out[1:]
	r.numbers.learn(want, &got.p)
	list := r.compare(want, got.p)
	if early, late := got.at < from-r.tolerance, got.at > latest; early || late {
		list = append(list, fmt.Sprintf("time: expected %v, got %v", span(from, to), seconds(got.at)))
	}
	if list != nil {
		return fmt.Errorf("at %v left:\n\t%v\n\t%s", seconds(got.at), r.show(got.p), strings.Join(list, "\n\t"))
	}
	if r.last = from; from != to || r.tolerance > 0 { // the next relative time counts from when the segment left
		r.last = got.at
	}
	return nil
}

// until formats a time, "never" for Never.
func until(d time.Duration) string {
	if d == Never {
		return "never"
	}
	return seconds(d)
}

// span formats an interval of time.
func span(from, to time.Duration) string {
	if from == to {
		return seconds(from)
	}
	return seconds(from) + " to " + until(to)
}
