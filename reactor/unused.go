package reactor

import "github.com/socketxtreme/socketxtreme/xtreme"

// logUnused logs the settings that were given explicitly and that this loop does not use, because a field of its Config overrides them. An
// Unpinned loop, which helps others, logs nothing: the others use them.
func (c *Config) logUnused(e *xtreme.Engine) {
	if c.Unpinned {
		return
	}
	s := e.Settings()
	for _, x := range []struct {
		field     string
		overrides bool
		names     []string // of the settings
	}{
		{"Batch", c.Batch != 0 && c.Batch != s.PollBatch, []string{"VMA_CQ_POLL_BATCH_MAX"}},
		{"Rest", c.Rest != Adaptive, []string{"VMA_RX_POLL", "VMA_SELECT_POLL"}},
		{"Rest", c.Rest == Wait, []string{"VMA_RX_POLL_YIELD"}},
		{"RxPoll", c.RxPoll != 0 && c.RxPoll != s.RxPoll, []string{"VMA_RX_POLL"}},
		{"SelectPoll", c.SelectPoll != 0 && c.SelectPoll != s.SelectPoll, []string{"VMA_SELECT_POLL"}},
		{"OSRatio", c.OSRatio != 0 && c.OSRatio != s.OSRatio, []string{"VMA_SELECT_POLL_OS_RATIO", "VMA_SELECT_POLL_OS_FORCE"}},
	} {
		for _, name := range x.names {
			if x.overrides {
				e.SettingUnused(name, "a loop has Config."+x.field+", which comes before it")
			}
		}
	}
	if len(c.Pin) > 0 {
		e.SettingUnused("VMA_RX_POLL_YIELD", "a loop is bound to a processor and holds its thread")
	}
}

// logUnusedBound logs that one of VMA_RX_POLL and VMA_SELECT_POLL has no effect because of the other one: both bound how long an Adaptive loop
// spins, and a value that means "for ever" or "not at all" decides alone. complete is the Config completed by the settings.
func (c *Config) logUnusedBound(e *xtreme.Engine, complete *Config) {
	if c.Unpinned || complete.Rest != Adaptive {
		return
	}
	turns, span := complete.RxPoll, complete.SelectPoll
	switch {
	case c.SelectPoll != 0: // the Config overrides the setting, as logUnused has logged
	case turns < 0 && span >= 0:
		e.SettingUnused("VMA_SELECT_POLL", "a loop spins for ever, as VMA_RX_POLL or its Config says")
	case turns == 0 && span > 0:
		e.SettingUnused("VMA_SELECT_POLL", "a loop sleeps at once, as VMA_RX_POLL says")
	}
	switch {
	case c.RxPoll != 0:
	case span < 0 && turns >= 0:
		e.SettingUnused("VMA_RX_POLL", "a loop spins for ever, as VMA_SELECT_POLL or its Config says")
	case span == 0 && turns > 0:
		e.SettingUnused("VMA_RX_POLL", "a loop sleeps at once, as VMA_SELECT_POLL says")
	}
}
