package xtreme

import (
	"slices"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/host"
)

// The engine's log has a warning, once, for each setting that was given and changes nothing: when the engine is made if the setting has no
// effect at all, and when a poller is made if it has none on that poller.

// SettingUnused logs a warning, once for each name, that a setting has no effect, with the reason why. It does so only if the setting was given
// explicitly (by the environment, a settings file or code) with a value that asks for a change. Packages that use an engine, such as reactor,
// call it where their own configuration overrides a setting. Any goroutine.
func (e *Engine) SettingUnused(name, why string) {
	if n, ok := e.settings.Overruled(name, why); ok {
		e.logUnused([]conf.NoEffect{n})
	}
}

// logUnused logs settings without effect, each name once for an engine.
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

// logUnusedBy logs the settings that have no effect on a new poller: because its rings are of another kind, or because a field of its
// configuration overrides them.
func (e *Engine) logUnusedBy(c chosen, o *PollerConfig) {
	kinds := []conf.RingKind{c.kind}
	if c.offload {
		kinds = append(kinds, conf.RingOffload)
	}
	e.logUnused(e.settings.WithoutEffect(kinds...))
	s := &e.settings
	for _, x := range []struct {
		field     string
		overrides bool
		names     []string // of the settings that the field overrides
	}{
		{"RingKind", o.RingKind != "" && o.RingKind != s.Ring && s.Ring != conf.RingAuto, []string{"SX_RING"}},
		{"RingLogic", o.RingLogic != nil && int(*o.RingLogic) != s.RingLogic, []string{"VMA_RING_ALLOCATION_LOGIC_RX"}},
		{"SmallBuffers", o.SmallBuffers != 0, []string{"VMA_RX_BUFS", "VMA_TX_BUFS"}},
		{"LargeBuffers", o.LargeBuffers != 0, []string{"SX_LARGE_BUFS"}},
		{"HugePages", o.HugePages && !s.HugePages, []string{"VMA_MEM_ALLOC_TYPE"}},
		{"Memory", o.Memory != nil, []string{"VMA_MEM_ALLOC_TYPE"}},
		{"Interfaces", len(o.Interfaces) > 0 && !limitsQueues(s.Offload.Interfaces, o.Interfaces), []string{"SX_OFFLOAD_INTERFACES"}},
		{"Checksum", o.Checksum != "", []string{"SX_CHECKSUM"}},
		{"OffloadTime", o.OffloadTime != "", []string{"SX_OFFLOAD_TIME"}},
	} {
		for _, name := range x.names {
			if x.overrides {
				e.SettingUnused(name, "a poller has PollerConfig."+x.field+", which comes before it")
			}
		}
	}
}

// limitsQueues reports whether the setting names queues of an interface that a poller's configuration names too, or of one that shares its
// queues: others are not opened for the poller either.
func limitsQueues(setting, configuration []conf.Interface) bool {
	if len(configuration) == 0 || !slices.ContainsFunc(setting, func(i conf.Interface) bool { return len(i.Queues) > 0 }) {
		return false
	}
	snap := host.NewSnapshot(host.Facts{}, 0)
	if h, err := host.Open(host.Config{}); err == nil { // otherwise the names alone tell
		snap = h.Snapshot()
		defer func() { _ = h.Close() }()
	}
	return sharesQueues(setting, configuration, snap)
}

// sharesQueues is limitsQueues with tables that say which VLANs and bonds are on which devices.
func sharesQueues(setting, configuration []conf.Interface, snap *host.Snapshot) bool {
	return slices.ContainsFunc(configuration, func(i conf.Interface) bool {
		below := []string{i.Name}
		if l, ok := snap.LinkByName(i.Name); ok {
			p := snap.Path(l.Index)
			below = append(below, devices(snap, &p)...)
		}
		return slices.ContainsFunc(below, func(name string) bool {
			queues, _ := queuesOf(setting, snap, name)
			return len(queues) > 0
		})
	})
}
