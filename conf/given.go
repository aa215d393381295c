package conf

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// NoEffect is a setting that was given and has no effect.
type NoEffect struct {
	Name   string // of the parameter
	Given  string // where it was given, its name there, and the value
	Reason string
}

// String is the whole as a sentence.
func (n NoEffect) String() string { return n.Given + " has no effect: " + n.Reason }

// Given says in words how a setting was given explicitly: by the environment, a settings file, or code that changed its field. It returns ""
// for a setting that was not given. Values of a profile do not count as given.
func (s *Settings) Given(name string) string {
	p := byName[name]
	if p == nil {
		return ""
	}
	if value := p.get(s); p.Field != "" && value != s.start(p) {
		return fmt.Sprintf("Settings.%s=%s (%s)", p.Field, value, p.Name)
	}
	return s.given[p.Name]
}

// start returns the value that a parameter had before code could change it: the default, or that of profile, file and environment.
func (s *Settings) start(p *Parameter) string {
	if value, ok := s.starts[p.Name]; ok {
		return value
	}
	return p.Default()
}

// noteGiven stores how a parameter was given, for Given.
func (s *Settings) noteGiven(p *Parameter, name, text string) {
	s.given = maps.Clone(s.given) // the settings are copied by value
	if s.given == nil {
		s.given = map[string]string{}
	}
	s.given[p.Name] = fmt.Sprintf("%s=%q", name, text)
}

// noteStarts stores the values that are not the default, before code gets the settings: Given compares with them to find what code has
// changed.
func (s *Settings) noteStarts() {
	s.starts = nil
	for i := range parameters {
		if p := &parameters[i]; p.get(s) != p.Default() {
			if s.starts == nil {
				s.starts = map[string]string{}
			}
			s.starts[p.Name] = p.get(s)
		}
	}
}

// WithoutEffect lists the settings that were given and change nothing. With kinds of ring: nothing for a poller whose rings are of these
// kinds, though they do for others. Without: nothing at all. A setting whose value is its default, or asks for what is done in any case, is
// not listed, unless another setting comes before it.
func (s *Settings) WithoutEffect(kinds ...RingKind) (list []NoEffect) {
	for i := range parameters {
		p := &parameters[i]
		given := s.Given(p.Name)
		if given == "" {
			continue
		}
		if why := p.whyNone(s, kinds); why != "" {
			list = append(list, NoEffect{p.Name, given, why})
		}
	}
	return list
}

// Overruled is what there is to say of a setting that something else comes before, why being the reason. False: it was not given, or its
// value asks for what is done in any case.
func (s *Settings) Overruled(name, why string) (NoEffect, bool) {
	p := byName[name]
	if p == nil || s.Given(name) == "" || p.satisfied(s) {
		return NoEffect{}, false
	}
	return NoEffect{p.Name, s.Given(name), why}, true
}

// whyNone is why a parameter's value has no effect on rings of some kinds, or, without any, at all; empty if it has.
func (p *Parameter) whyNone(s *Settings, kinds []RingKind) string {
	if p.satisfied(s) {
		return ""
	}
	if p.idle != nil {
		if why := p.idle(s, kinds); why != "" {
			return why
		}
	}
	switch {
	case p.get(s) == p.Default():
		return ""
	case p.Field == "" && len(kinds) == 0:
		return string(p.State) + ": " + p.Effect
	case len(kinds) > 0 && len(p.Rings) > 0 && !slices.ContainsFunc(kinds, func(k RingKind) bool { return slices.Contains(p.Rings, k) }):
		return fmt.Sprintf("the poller's rings are of kind %s, it is for %s", kindsText(kinds), kindsText(p.Rings))
	}
	return ""
}

// satisfied reports whether a value asks for what is done without it too.
func (p *Parameter) satisfied(s *Settings) bool {
	if p.sameAs != "" {
		return p.get(s) == byName[p.sameAs].get(s)
	}
	return slices.Contains(p.asIs, p.get(s))
}

// kindsText lists kinds of ring in words.
func kindsText(kinds []RingKind) string {
	text := ""
	for i, k := range kinds {
		if i > 0 {
			text += " and "
		}
		text += string(k)
	}
	return text
}

// on limits a parameter's effect to kinds of ring.
func (p Parameter) on(kinds ...RingKind) Parameter {
	p.Rings = kinds
	return p
}

// unless gives a parameter with an effect a reason why its value has none; empty: it has.
func (p Parameter) unless(idle func(s *Settings, kinds []RingKind) string) Parameter {
	p.idle = idle
	return p
}

// as names the values of a parameter that ask for what is done in any case where it has no effect.
func (p Parameter) as(values ...string) Parameter {
	p.asIs = values
	return p
}

// like is as, for the value that another parameter has.
func (p Parameter) like(name string) Parameter {
	p.sameAs = name
	return p
}

// vma notes VMA's own default, where it is another one.
func (p Parameter) vma(standard string) Parameter {
	p.VMA = standard
	return p
}

// The reasons of values that have no effect although their setting has one.

// noContiguous is the reason for VMA_MEM_ALLOC_TYPE if contiguous pages were asked for, which only a driver could allocate.
func noContiguous(s *Settings, kinds []RingKind) string {
	if len(kinds) == 0 && !s.HugePages && contiguous(s.given["VMA_MEM_ALLOC_TYPE"]) {
		return "contiguous pages cannot be asked for outside a driver: the pages are ordinary ones"
	}
	return ""
}

// contiguous reports whether VMA_MEM_ALLOC_TYPE was given as 1 or CONTIG; given is a value of Settings.given.
func contiguous(given string) bool {
	return strings.HasSuffix(given, `="1"`) || strings.HasSuffix(strings.ToUpper(given), `="CONTIG"`)
}

// noCapture is the reason for the settings of a capture if there is none.
func noCapture(s *Settings, kinds []RingKind) string {
	if len(kinds) == 0 && s.Offload.Capture == "" {
		return "SX_CAPTURE names no file"
	}
	return ""
}

// noOwnTCP is the reason for the settings of our own TCP if the kernel carries TCP.
func noOwnTCP(s *Settings, kinds []RingKind) string {
	if len(kinds) == 0 && !s.Offload.TCP {
		return "TCP is the kernel's: SX_OFFLOAD_TCP is 0"
	}
	return ""
}

// profileOfCode is the reason for VMA_SPEC if code has set Settings.Profile: it names what was applied, and applies nothing.
func profileOfCode(s *Settings, kinds []RingKind) string {
	if len(kinds) == 0 && s.Profile != s.starts["VMA_SPEC"] {
		return "code has set the name of the profile alone: WithProfile applies its values"
	}
	return ""
}

// notPublished is the reason for the settings of published statistics if there are none.
func notPublished(s *Settings, kinds []RingKind) string {
	if len(kinds) == 0 && s.StatsDirectory == "" {
		return "VMA_STATS_SHMEM_DIR is empty: nothing is published"
	}
	return ""
}

// cardTimeAsks is the reason for SX_OFFLOAD_TIME if VMA_HW_TS_CONVERSION asks for the stamps of the card.
func cardTimeAsks(s *Settings, kinds []RingKind) string {
	if len(kinds) == 0 && s.CardTime != 0 && s.Offload.Time != TimeHardware {
		return "VMA_HW_TS_CONVERSION asks for hardware"
	}
	return ""
}

// onlyDatagrams is the reason for VMA_MTU on kernel rings if VMA_MSS is given: the MTU would only limit segments there.
func onlyDatagrams(s *Settings, kinds []RingKind) string {
	if len(kinds) > 0 && s.MSS > 0 && !slices.Contains(kinds, RingOffload) {
		return "the poller's rings are of kind " + kindsText(kinds) + ", whose datagrams follow the interface, and VMA_MSS says how long segments are"
	}
	return ""
}

// ratioSaid is the reason for VMA_SELECT_POLL_OS_FORCE if VMA_SELECT_POLL_OS_RATIO, or its field in code, has another value.
func ratioSaid(s *Settings, kinds []RingKind) string {
	if len(kinds) == 0 && s.OSRatio != 1 {
		return "VMA_SELECT_POLL_OS_RATIO says otherwise and counts"
	}
	return ""
}
