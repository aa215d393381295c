package xtreme

import (
	"fmt"
	"os"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/cure"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
	"github.com/socketxtreme/socketxtreme/ring/uring"
)

// curable are the codes of the reasons that the engine's log has as well, each once, with the command that cures it: what VMA warns of at its
// start, as far as it can be so here. Paths of sockets show the other reasons.
var curable = map[string]bool{
	uring.CodeMemlock:      true,
	sys.NoteNoHugePages:    true,
	xdp.ReasonMemlock:      true,
	xdp.ReasonNoCapability: true,
	xdp.ReasonNoJumbo:      true,
	"link.bond_empty":      true,
	"link.bond_members":    true,
	"link.bond_mode":       true,
}

// warnCurable logs those of the reasons that are curable, each code once for an engine. Any goroutine.
func (e *Engine) warnCurable(list []ring.Reason, at cure.Place) {
	for _, r := range list {
		if curable[r.Code] && e.firstWarning(r.Code) {
			at.Program, _ = os.Executable()
			e.warnWithCure(r.Code, r.Text, at)
		}
	}
}

// firstWarning reports whether the engine has not warned of a code yet, and notes that it does.
func (e *Engine) firstWarning(code string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.warned[code] {
		return false
	}
	if e.warned == nil {
		e.warned = map[string]bool{}
	}
	e.warned[code] = true
	return true
}

// warnWithCure logs one warning.
func (e *Engine) warnWithCure(code, text string, at cure.Place) {
	attrs := []any{"code", code}
	if command := cure.Command(code, at); command != "" {
		attrs = append(attrs, "cure", command)
	}
	e.log.Warn(text, attrs...)
}

// warnOfLogLevel warns of a level of the engine's own log with which programs are slow, as VMA does.
func (e *Engine) warnOfLogLevel() {
	level := e.settings.LogLevel
	if e.settings.Logger == nil && level.Includes(conf.LogDebug) {
		e.warnWithCure(cure.LogLevel, fmt.Sprintf("the log level is %s: it is for debugging, and makes the program slower", level), cure.Place{})
	}
}

// warnOfInterface warns of an interface that cannot be offloaded.
func (e *Engine) warnOfInterface(name string, why ring.Reason) {
	e.warnCurable([]ring.Reason{why}, cure.Place{Interface: name})
}

// warnOfLinks warns of what the links of an interface that a ring has just opened lack. Of frames longer than a page nothing is said where the
// interface carries none.
func (e *Engine) warnOfLinks(name string, mtu int, list []ring.Reason) {
	for _, r := range list {
		if r.Code != xdp.ReasonNoJumbo || mtu > cure.PageMTU {
			e.warnOfInterface(name, r)
		}
	}
}

// hugePagesFor is how many huge pages of 2 MiB hold n bytes.
func hugePagesFor(n int) int { return (n + 2<<20 - 1) / (2 << 20) }
