package xtreme

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/stream"
)

// rulebook holds an engine's rules: those of the file and those added since. Any goroutine reads now; AddRule and Reload replace it.
type rulebook struct {
	now     atomic.Pointer[conf.Rules]
	program conf.Program // this program, by whose name and id groups are chosen

	mu sync.Mutex // held by AddRule and Reload
}

// Rules returns the rules as they are now: those of the file and those added. Any goroutine.
func (e *Engine) Rules() *conf.Rules { return e.rules.now.Load() }

// AddRule adds rules, in the grammar of the rules file (see package conf). They are asked for sockets that get their ring from now on; rules
// for udp_sender also for destinations that an open socket sends to for the first time, as in VMA. With prepend they stand at the head of
// their role's list, where they are tried before all others, else at its end. Of several rules of a role in one text the last one is tried
// first with prepend, because each is put at the head by itself.
//
// An application-id line in text says which group the rules go to. Without one it is the group that the last AddRule named, or, if none did,
// the last one of the file. Equal rules are kept once, so that memory does not grow with repeated calls.
//
// A mistake is a *conf.RuleError and changes nothing; so is a text that is empty or a remark only. Any goroutine. (VMA: add_conf_rule, which
// adds at the head.)
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

// Reload reads the rules file again. As with AddRule the rules are asked for new sockets and destinations only. Rules that AddRule added are
// kept, each in its group, whatever groups the file has now (conf.Rules.WithAdded). An error changes nothing. Any goroutine. A library
// installs no signal handlers: a program that reloads on SIGHUP calls Reload from its own, as examples/rules does.
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

// loadRules reads the rules file when an engine is made. A file with a mistake, or a missing one that the settings name, is an error with
// VMA_EXCEPTION_HANDLING=-2. Otherwise it is a warning in the log, and the engine uses the rules that come with the library.
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

// ruleQuery is what the rules are asked about a socket: the arguments of conf.Rules.Match.
type ruleQuery struct {
	role          conf.Role
	first, second netip.AddrPort
}

// ruleQueries lists what the rules are asked when a socket gets its ring. One socket may have several roles: a UDP socket is asked about as a
// receiver for its address and for each of its groups, and as a sender if it has a peer. peer is the address that a socket that is being
// bound will be connected to (UDPConfig.Remote), source the address that a stream which is not bound will have; not valid: none.
func ruleQueries(s *Socket, peer netip.AddrPort, source netip.Addr) (list []ruleQuery) {
	local, remote := s.LocalAddr(), s.RemoteAddr()
	if source.IsValid() {
		local = netip.AddrPortFrom(source, local.Port())
	}
	switch s.Kind() {
	case ring.KindListener:
		if local.IsValid() { // a unix-domain listener has no IP address, and no rule is for it
			list = append(list, ruleQuery{conf.TCPServer, local, netip.AddrPort{}})
		}
		return list
	case ring.KindStream:
		if remote.IsValid() {
			list = append(list, ruleQuery{conf.TCPClient, remote, local})
		}
		return list
	}
	unconnected := !remote.IsValid()
	if unconnected {
		remote = peer
	}
	if remote.IsValid() {
		list = append(list, ruleQuery{conf.UDPConnect, remote, local}, ruleQuery{conf.UDPSender, remote, local})
	}
	if unconnected && local.IsValid() {
		list = append(list, ruleQuery{conf.UDPReceiver, local, netip.AddrPort{}})
	}
	for _, m := range ring.OptionsOf(s).Groups {
		if m.Group != local.Addr() { // else it was listed with the local address
			list = append(list, ruleQuery{conf.UDPReceiver, netip.AddrPortFrom(m.Group, local.Port()), netip.AddrPort{}})
		}
	}
	return list
}

// joinQueries lists what the rules are asked when a socket that has its ring joins a group: about a receiver of that group, which alone is in
// its options then. All else was asked when it got its ring, or was not to be asked (a peer that it was connected to later).
func joinQueries(s *Socket) (list []ruleQuery) {
	for _, m := range ring.OptionsOf(s).Groups {
		list = append(list, ruleQuery{conf.UDPReceiver, netip.AddrPortFrom(m.Group, s.LocalAddr().Port()), netip.AddrPort{}})
	}
	return list
}

// matchRules returns the rule that decides on a socket, by the answers to queries: the first one that leaves any of its roles to the kernel;
// else the first one that asks for an offloaded socket; else an Answer without a rule.
func (e *Engine) matchRules(queries []ruleQuery) conf.Answer {
	var offloaded conf.Answer
	rules := e.Rules()
	for _, q := range queries {
		switch a := rules.Match(e.rules.program, q.role, q.first, q.second); {
		case a.Transport == conf.OS:
			return a
		case a.Rule != nil && a.Transport == conf.Offloaded && q.role != conf.UDPConnect && offloaded.Rule == nil:
			offloaded = a // a rule that udp_connect be offloaded has no effect, as in VMA
		}
	}
	return offloaded
}

// place decides which set carries a socket: the poller's kernel rings or its offloaded ring. Package ring calls it (ring.SetConfig.Place) when
// a socket is to get its ring, and again when a socket that has one joins a group. Choices against offloading come first: the socket's
// options, the poller, the settings, the rules. Then the offloaded ring is asked whether it can have the socket. The reasons go to the socket's
// path; an error makes the call that needed the ring fail.
func (p *Poller) place(s *Socket) (*ring.Set, []ring.Reason, error) {
	e := p.engine
	if ring.HandleOf(s).Conn >= stream.TransitBase {
		return p.offloaded.set.Load(), nil, nil // Adopt has opened what it needs; the rules were asked for its listener
	}
	var a conf.Answer
	if s.Ring() != nil {
		a = e.matchRules(joinQueries(s))
	} else {
		a = e.matchRules(ruleQueries(s, p.peer, p.sourceOf(s)))
	}
	kernel := p.kernelByChoice(s)
	if kernel == nil && a.Transport == conf.OS {
		kernel = []ring.Reason{{Code: "rule.os", Text: describeRule(a) + " leaves the socket to the kernel"}}
	}
	if kernel != nil && s.Ring() == nil {
		if ring.ConfigOf(s).RequireOffload {
			return nil, nil, notOffloadedError(kernel)
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
	case kernel != nil && s.Path().Tier == ring.TierKernel: // of a socket that has its ring, and that stays with the kernel
		return set, kernel, nil
	case kernel != nil: // a rule for a group that the socket joined after it was offloaded: it is not moved
		kernel[0] = ring.Reason{Code: "rule.late", Text: kernel[0].Text + ", but the socket was offloaded when it joined the group"}
		return set, append(kernel, why...), nil
	case a.Rule != nil && set == p.set && s.Ring() == nil:
		err := e.unmet(a, why)
		why = append([]ring.Reason{{Code: "rule.unmet", Text: asksForOffload(a)}}, why...)
		if !p.making { // a call such as Bind on a socket that the application has: nothing has to be undone first
			panicIfFatal(err)
		}
		return set, why, err
	}
	return set, why, nil
}

// checkRules handles a rule that asks for an offloaded socket where the socket is on the offloaded ring and the kernel carries it all the
// same; of one that is not, place has done so. peer is the address that it connects to.
func (p *Poller) checkRules(s *Socket, peer netip.AddrPort) error {
	if p.offloaded == nil || !slices.Contains(p.offloaded.rings(), s.Ring()) || s.Path().Tier != ring.TierKernel {
		return nil
	}
	a := p.engine.matchRules(ruleQueries(s, peer, p.sourceOf(s)))
	if a.Rule == nil || a.Transport != conf.Offloaded {
		return nil
	}
	return p.engine.unmet(a, s.Path().Reasons)
}

// unmet handles a rule for offload that cannot be followed, for the reasons given.
func (e *Engine) unmet(a conf.Answer, why []ring.Reason) error {
	return e.exception("rule", fmt.Errorf("%s: %w", asksForOffload(a), notOffloadedError(why)))
}

// asksForOffload is what such a rule wants, in words.
func asksForOffload(a conf.Answer) string { return describeRule(a) + " asks for an offloaded socket" }

// describeRule returns the rule of an answer in words, with its line and its group, for reasons and errors.
func describeRule(a conf.Answer) string {
	where := "added at run time"
	if a.Rule.Line > 0 {
		where = fmt.Sprintf("line %d", a.Rule.Line)
	}
	return fmt.Sprintf("the rule %q (%s, application-id %s %s)", a.Rule, where, a.Group.Program, a.Group.ID)
}

// fatalError is an error that must end the program (VMA_EXCEPTION_HANDLING=3). It travels as an ordinary error through the call that failed,
// which undoes what it had begun; then panicIfFatal ends the program.
type fatalError struct{ err error }

func (f *fatalError) Error() string { return "xtreme: VMA_EXCEPTION_HANDLING=3\n" + f.err.Error() }
func (f *fatalError) Unwrap() error { return f.err }

// panicIfFatal panics if err is a fatalError or wraps one. Public calls that can fail with one call it before they return their error.
func panicIfFatal(err error) {
	var f *fatalError
	if errors.As(err, &f) {
		panic(f)
	}
}

// exception handles err, that something the settings or the rules ask for cannot be had, as VMA_EXCEPTION_HANDLING says: it logs, and returns
// nil if the caller goes on without, or an error with which the caller must fail. what is the kind of thing, for the log: "rule", "setting".
func (e *Engine) exception(what string, err error) error {
	switch e.settings.ExceptionHandling { // VMA's numbers; -2 to 0 are the default
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
