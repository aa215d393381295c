package xtreme

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
)

// rulebook is an engine's rules: those of the file and those added since.
type rulebook struct {
	now     atomic.Pointer[conf.Rules]
	program conf.Program

	mu sync.Mutex // of who changes them
}

// Rules is which sockets are offloaded, as of now. Any goroutine.
func (e *Engine) Rules() *conf.Rules { return e.rules.now.Load() }

// AddRule adds rules, in the grammar of the rules file (see package conf). They are asked for sockets that get their ring from now on; rules
// for udp_sender also for destinations that an open socket sends to for the first time, as in VMA. With prepend they stand at the head of
// their role's list, where they are tried before all others, else at its end.
//
// An application-id line in text says which group the rules go to. Without one it is the group that the last AddRule named, or, if none did,
// the last one of the file. Equal rules are kept once, so that memory does not grow with repeated calls.
//
// A mistake is a *conf.RuleError and changes nothing; so is a text without any rule. Any goroutine. (VMA: add_conf_rule, which adds at the
// head.)
func (e *Engine) AddRule(text string, prepend bool) error {
	b := &e.rules
	b.mu.Lock()
	defer b.mu.Unlock()
	r, err := b.now.Load().With(text, prepend)
	if err != nil {
		return fmt.Errorf("xtreme: add rule: %w", err)
	}
	b.now.Store(r)
	return nil
}

// Reload reads the rules file again, for sockets and destinations from now on, as AddRule; what AddRule added is kept, each rule in the group
// of the program and id that it went to, whatever groups the file has now (conf.Rules.WithAdded). With an error everything stays as it was.
// Any goroutine. A library takes no signals: call it from yours, as examples/rules does.
func (e *Engine) Reload() error {
	b := &e.rules
	b.mu.Lock()
	defer b.mu.Unlock()
	r, err := e.settings.Rules()
	if err != nil {
		return fmt.Errorf("xtreme: reload: %w", err)
	}
	b.now.Store(r.WithAdded(b.now.Load()))
	return nil
}

// loadRules reads the rules at the start. A file with a mistake, or one that is named and not there, is an error with
// VMA_EXCEPTION_HANDLING=-2; else the log tells, and the rules that come with the library hold.
func (e *Engine) loadRules() error {
	e.rules.program = conf.Program{Name: programName(), ID: e.settings.ApplicationID}
	r, err := e.settings.Rules()
	if err != nil {
		if e.settings.ExceptionHandling == -2 {
			return fmt.Errorf("xtreme: %w", err)
		}
		e.log.Warn("no rule of the rules file holds", "error", err)
		if r, err = conf.ParseRules(conf.ShippedRules); err != nil {
			return fmt.Errorf("xtreme: %w", err)
		}
	}
	if p := e.rules.program; p.ID != conf.DefaultApplicationID && !r.Knows(p) {
		e.log.Warn("no group of the rules is for this application id", "id", p.ID, "program", p.Name)
	}
	e.rules.now.Store(r)
	return nil
}

// question is one that a socket has for the rules.
type question struct {
	role          conf.Role
	first, second netip.AddrPort
}

// questions lists what a socket asks when it gets its ring. peer is whom a socket that is being bound will be connected to.
func questions(s *Socket, peer netip.AddrPort) (list []question) {
	local, remote := s.LocalAddr(), s.RemoteAddr()
	switch s.Kind() {
	case ring.KindListener:
		if local.IsValid() { // not of a unix-domain listener
			list = append(list, question{conf.TCPServer, local, netip.AddrPort{}})
		}
		return list
	case ring.KindStream:
		if remote.IsValid() {
			list = append(list, question{conf.TCPClient, remote, local})
		}
		return list
	}
	bound := !remote.IsValid()
	if bound {
		remote = peer
	}
	if remote.IsValid() {
		list = append(list, question{conf.UDPConnect, remote, local}, question{conf.UDPSender, remote, local})
	}
	if bound && local.IsValid() {
		list = append(list, question{conf.UDPReceiver, local, netip.AddrPort{}})
	}
	for _, m := range ring.OptionsOf(s).Groups {
		if m.Group != local.Addr() {
			list = append(list, question{conf.UDPReceiver, netip.AddrPortFrom(m.Group, local.Port()), netip.AddrPort{}})
		}
	}
	return list
}

// ask is what the rules say of a socket: the first that leaves it to the kernel; else one that wants it offloaded, if any does.
func (e *Engine) ask(s *Socket, peer netip.AddrPort) conf.Answer {
	var wanted conf.Answer
	rules := e.Rules()
	for _, q := range questions(s, peer) {
		switch a := rules.Match(e.rules.program, q.role, q.first, q.second); {
		case a.Transport == conf.OS:
			return a
		case a.Rule != nil && a.Transport == conf.Offloaded && q.role != conf.UDPConnect && wanted.Rule == nil:
			wanted = a // a rule that udp_connect be offloaded has no effect, as in VMA
		}
	}
	return wanted
}

// place is the ring.SetConfig.Place of a poller's sets: rules and settings first, then what can be had.
func (p *Poller) place(s *Socket) (*ring.Set, []ring.Reason, error) {
	e := p.engine
	a := e.ask(s, p.peer)
	kernel := p.kernelByChoice(s)
	if kernel == nil && a.Transport == conf.OS {
		kernel = []ring.Reason{{Code: "rule.os", Text: describe(a) + " leaves the socket to the kernel"}}
	}
	if kernel != nil && s.Ring() == nil {
		if ring.ConfigOf(s).RequireOffload {
			return nil, nil, required(kernel)
		}
		return p.set, kernel, nil
	}
	set, why := p.set, []ring.Reason(nil)
	if p.offloaded != nil {
		var err error
		if set, why, err = p.offloaded.place(s); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case kernel != nil && s.Path().Tier == ring.TierKernel:
		return set, kernel, nil
	case kernel != nil:
		kernel[0] = ring.Reason{Code: "rule.late", Text: kernel[0].Text + ", but the socket was offloaded when it joined the group"}
		return set, append(kernel, why...), nil
	case a.Rule != nil && set == p.set && s.Ring() == nil:
		unmet := ring.Reason{Code: "rule.unmet", Text: describe(a) + " asks for an offloaded socket"}
		why = append([]ring.Reason{unmet}, why...)
		err := e.exception("rule", fmt.Errorf("%s: %w", unmet.Text, required(why[1:])))
		if !p.making {
			dieOf(err) // in a call on a socket that the application has, and that it stays the owner of
		}
		return set, why, err
	}
	return set, why, nil
}

// describe is a rule and where it stands.
func describe(a conf.Answer) string {
	where := "added at run time"
	if a.Rule.Line > 0 {
		where = fmt.Sprintf("line %d", a.Rule.Line)
	}
	return fmt.Sprintf("the rule %q (%s, application-id %s %s)", a.Rule, where, a.Group.Program, a.Group.ID)
}

// fatalError is an error that ends the program, by VMA_EXCEPTION_HANDLING=3: once what the call had begun is undone.
type fatalError struct{ err error }

func (f *fatalError) Error() string { return "xtreme: VMA_EXCEPTION_HANDLING=3\n" + f.err.Error() }
func (f *fatalError) Unwrap() error { return f.err }

// dieOf panics with a fatalError. Public calls do that last.
func dieOf(err error) {
	var f *fatalError
	if errors.As(err, &f) {
		panic(f)
	}
}

// exception is what VMA_EXCEPTION_HANDLING makes of something that was asked for and cannot be had. An error is returned where the
// call that asked is to fail; see dieOf.
func (e *Engine) exception(what string, err error) error {
	switch e.settings.ExceptionHandling {
	case 1:
		e.log.Error("cannot be had, goes on without", "what", what, "error", err)
	case 2:
		e.log.Error("cannot be had", "what", what, "error", err)
		return err
	case 3:
		e.log.Error("cannot be had", "what", what, "error", err)
		return &fatalError{err}
	default:
		e.log.Debug("cannot be had, goes on without", "what", what, "error", err)
	}
	return nil
}
