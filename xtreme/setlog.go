package xtreme

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/socketxtreme/socketxtreme/conf"
)

// logRequest changes the log of engines; what is empty or nil stays. With Seconds the change is taken back after that time.
type logRequest struct {
	Level   string  `json:"level"`
	Details *int    `json:"details"`
	Seconds float64 `json:"seconds"`
}

// longestChange is the longest time for which a change may be asked.
const longestChange = 24 * time.Hour

// logRevert is a change of a log that will be taken back.
type logRevert struct {
	timer *time.Timer
	to    conf.LogState
}

// setLog is the handler of the request "log": it changes level and details of the engines' logs. A logger that the program gave to an engine
// stays as it is. Error: the program gave one to each engine. A change without a time, while another one for a time is under way, is for good.
func (p *publication) setLog(with json.RawMessage, _ io.Writer) error {
	var q logRequest
	if err := json.Unmarshal(with, &q); err != nil {
		return err
	}
	level := conf.LogLevel(q.Level)
	var err error
	if q.Level != "" {
		level, err = conf.ParseLogLevel(q.Level)
	}
	if q.Details != nil && (*q.Details < 0 || *q.Details > 3) {
		err = errors.Join(err, fmt.Errorf("log details %d: want 0 to 3", *q.Details))
	}
	if q.Seconds < 0 || q.Seconds > longestChange.Seconds() {
		err = errors.Join(err, fmt.Errorf("a change of the log for %v s: want up to %v", q.Seconds, longestChange))
	}
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, e := range p.engines {
		if e.settings.Logger != nil {
			continue
		}
		n++
		l := e.log
		p.scheduleRevert(l, time.Duration(q.Seconds*float64(time.Second)))
		if q.Level != "" {
			l.SetLevel(level)
		}
		if q.Details != nil {
			if err := l.SetDetails(*q.Details); err != nil {
				return err
			}
		}
	}
	if n == 0 {
		return errors.New("the program gave its engines a logger: its level is the program's to set")
	}
	return nil
}

// scheduleRevert has a log become again after d what it is now, or, if a change for a time is under way, what it was before that. d is 0: it
// stays as it is changed. With the lock.
func (p *publication) scheduleRevert(l *conf.Log, d time.Duration) {
	to := l.State()
	if r := p.reverts[l]; r != nil {
		to = r.to
		r.timer.Stop()
		delete(p.reverts, l)
	}
	if d == 0 {
		return
	}
	if p.reverts == nil {
		p.reverts = map[*conf.Log]*logRevert{}
	}
	r := &logRevert{to: to}
	p.reverts[l] = r
	r.timer = time.AfterFunc(d, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.reverts[l] == r { // and no later request has taken its place
			delete(p.reverts, l)
			l.Restore(to)
		}
	})
}
