package xtreme

import (
	"github.com/socketxtreme/socketxtreme/conf"
)

// Settings that were given and change nothing are a warning of the engine's log, once each: those without any effect when the engine is made,
// those without an effect on a poller when the first such poller is made.

// SettingUnused says in the engine's log, at warning level and once, that a setting has no effect, and why, if it was given explicitly (by the
// environment, a settings file or code) and its value asks for something. Packages on top of an engine call it where a configuration of
// theirs comes before a setting. Any goroutine.
func (e *Engine) SettingUnused(name, why string) {
	if n, ok := e.settings.Overruled(name, why); ok {
		e.logUnused([]conf.NoEffect{n})
	}
}

func (e *Engine) logUnused(list []conf.NoEffect) {
	for _, n := range list {
		e.mu.Lock()
		known := e.reported[n.Name]
		if e.reported == nil {
			e.reported = map[string]bool{}
		}
		e.reported[n.Name] = true
		e.mu.Unlock()
		if !known {
			e.log.Warn(n.String())
		}
	}
}

// logUnusedBy says what a poller does not use, for the kinds of its rings or because its configuration comes first.
func (e *Engine) logUnusedBy(c chosen, o *PollerConfig) {
	kinds := []conf.RingKind{c.kind}
	if c.offload {
		kinds = append(kinds, conf.RingOffload)
	}
	e.logUnused(e.settings.WithoutEffect(kinds...))
	s := &e.settings
	for _, x := range []struct {
		field string
		over  bool
		names []string
	}{
		{"RingKind", o.RingKind != "" && o.RingKind != s.Ring && s.Ring != conf.RingAuto, []string{"SX_RING"}},
		{"RingLogic", o.RingLogic != nil && int(*o.RingLogic) != s.RingLogic, []string{"VMA_RING_ALLOCATION_LOGIC_RX"}},
		{"SmallBuffers", o.SmallBuffers != 0, []string{"VMA_RX_BUFS", "VMA_TX_BUFS"}},
		{"LargeBuffers", o.LargeBuffers != 0, []string{"SX_LARGE_BUFS"}},
		{"HugePages", o.HugePages && !s.HugePages, []string{"VMA_MEM_ALLOC_TYPE"}},
		{"Memory", o.Memory != nil, []string{"VMA_MEM_ALLOC_TYPE"}},
		{"Interfaces", len(o.Interfaces) > 0, []string{"SX_OFFLOAD_INTERFACES"}},
		{"Checksum", o.Checksum != "", []string{"SX_CHECKSUM"}},
		{"OffloadTime", o.OffloadTime != "", []string{"SX_OFFLOAD_TIME"}},
	} {
		for _, name := range x.names {
			if x.over {
				e.SettingUnused(name, "a poller has PollerConfig."+x.field+", which comes before it")
			}
		}
	}
}
