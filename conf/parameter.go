package conf

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// State says how far a setting, function or feature of VMA's exists here. The words are those of docs/from-vma.md.
type State string

// The states.
const (
	Works         State = "works"
	Partly        State = "partly" // the Effect says what is missing, and on which rings
	Better        State = "better"
	HardwareOnly  State = "hardware-only"
	NotApplicable State = "not applicable"
)

// Parameter is one setting: a line of the table that reading, checking, printing, JSON and docs/settings.md are made from.
type Parameter struct {
	Name   string   // in the environment and in settings files
	Title  string   // in the start-up lines
	Field  string   // of Settings; empty: it is accepted and has no effect
	Old    []string // names of older versions that mean the same: a value under one is a warning
	Also   []string // other spellings of manuals
	VMA    string   // VMA's default, or XLIO's of a setting that VMA has not, where it is another one
	State  State
	Effect string     // what it does here, or why it does nothing
	Rings  []RingKind // the kinds of ring on which it has an effect; nil with a Field: all

	idle   func(s *Settings, kinds []RingKind) string // why the value has no effect, see Settings.WithoutEffect; nil: it always has
	asIs   []string                                   // values that ask for what is done in any case where the setting has no effect
	sameAs string                                     // the same for the value of another parameter
	access
}

// access has the functions by which a parameter's value is shown, set and checked.
type access struct {
	want  string                        // the accepted values in words
	get   func(*Settings) string        // the value as text
	set   func(*Settings, string) error // sets the value from text
	check func(*Settings) bool          // reports whether the value, which code may have set, is accepted
}

// Want says in words which values are accepted.
func (p *Parameter) Want() string { return p.want }

// Default is the value that the parameter has if it is not given.
func (p *Parameter) Default() string { return p.get(&defaults) }

// defaults are read by all parameters: made for each call, they were two hundred kilobytes of garbage at the start of an engine.
var defaults = Default()

// Value is the parameter's value in s.
func (p *Parameter) Value(s *Settings) string { return p.get(s) }

// names lists the names under which the parameter may be given: its own, other spellings, older ones, and XLIO's form of each (XLIO_ for VMA_).
func (p *Parameter) names() []string {
	list := slices.Concat([]string{p.Name}, p.Also, p.Old)
	for _, n := range list {
		if rest, ok := strings.CutPrefix(n, "VMA_"); ok && !slices.Contains(list, "XLIO_"+rest) {
			list = append(list, "XLIO_"+rest)
		}
	}
	return list
}

// Parameters lists all settings.
func Parameters() []Parameter { return slices.Clone(parameters) }

var parameters = slices.Concat(ringParameters, memoryParameters, pollParameters, socketParameters, stackParameters, ruleParameters,
	logParameters, hardwareParameters, tcpParameters, threadParameters, libraryParameters, xlioParameters)

// byName finds a parameter by any of its names.
var byName = func() map[string]*Parameter {
	m := map[string]*Parameter{}
	for i := range parameters {
		for _, n := range parameters[i].names() {
			m[n] = &parameters[i]
		}
	}
	return m
}()

// The functions below make the access to a field of Settings. field returns a pointer to it.

// integer is the access to a number from least to most.
func integer(field func(*Settings) *int, least, most int) access {
	want := fmt.Sprintf("a number from %d to %d", least, most)
	return access{
		want: want,
		get:  func(s *Settings) string { return strconv.Itoa(*field(s)) },
		set: func(s *Settings, text string) error {
			n, err := strconv.Atoi(text)
			if err != nil || n < least || n > most {
				return fmt.Errorf("want %s", want)
			}
			*field(s) = n
			return nil
		},
		check: func(s *Settings) bool { n := *field(s); return n >= least && n <= most },
	}
}

// oneOf is the access to a field that is one of a few numbers. Code, but not text, may also set those in extra.
func oneOf(field func(*Settings) *int, numbers []int, extra ...int) access {
	want := fmt.Sprintf("one of %v", numbers)
	return access{
		want: want,
		get:  func(s *Settings) string { return strconv.Itoa(*field(s)) },
		set: func(s *Settings, text string) error {
			n, err := strconv.Atoi(text)
			if err != nil || !slices.Contains(numbers, n) {
				return fmt.Errorf("want %s", want)
			}
			*field(s) = n
			return nil
		},
		check: func(s *Settings) bool {
			return slices.Contains(numbers, *field(s)) || slices.Contains(extra, *field(s))
		},
	}
}

// toggle is the access to a field that is on or off. With not the field means the opposite of the setting: it is true for off.
func toggle(field func(*Settings) *bool, not bool) access {
	return access{
		want: "0 or 1",
		get: func(s *Settings) string {
			if *field(s) != not {
				return "1"
			}
			return "0"
		},
		set: func(s *Settings, text string) error {
			on, ok := onOrOff[strings.ToLower(text)]
			if !ok {
				return fmt.Errorf("want 0 or 1")
			}
			*field(s) = on != not
			return nil
		},
		check: func(*Settings) bool { return true },
	}
}

// onOrOff are the words for on and off, in lower case.
var onOrOff = map[string]bool{"1": true, "true": true, "on": true, "enable": true, "enabled": true,
	"0": false, "false": false, "off": false, "disable": false, "disabled": false}

// span is the access to a time that is given as a number of units, up to most. With forever -1 is accepted too, and stored as -1.
func span(field func(*Settings) *time.Duration, unit time.Duration, most int, forever bool) access {
	want, least := fmt.Sprintf("a number from 0 to %d", most), 0
	if forever {
		want, least = fmt.Sprintf("a number from -1 to %d", most), -1
	}
	return access{
		want: want,
		get: func(s *Settings) string {
			if d := *field(s); d != -1 {
				return strconv.FormatFloat(float64(d)/float64(unit), 'f', -1, 64)
			}
			return "-1"
		},
		set: func(s *Settings, text string) error {
			n, err := strconv.Atoi(text)
			if err != nil || n < least || n > most {
				return fmt.Errorf("want %s", want)
			}
			if *field(s) = time.Duration(n) * unit; n < 0 {
				*field(s) = -1
			}
			return nil
		},
		check: func(s *Settings) bool {
			d := *field(s)
			return d >= 0 && d <= time.Duration(most)*unit || forever && d == -1
		},
	}
}

// atLeast is span with another least than 0.
func atLeast(field func(*Settings) *time.Duration, unit time.Duration, least, most int) access {
	a := span(field, unit, most, false)
	a.want = fmt.Sprintf("a number from %d to %d", least, most)
	set, check := a.set, a.check
	a.set = func(s *Settings, text string) error {
		if n, err := strconv.Atoi(text); err != nil || n < least || set(s, text) != nil {
			return fmt.Errorf("want %s", a.want)
		}
		return nil
	}
	a.check = func(s *Settings) bool { return *field(s) >= time.Duration(least)*unit && check(s) }
	return a
}

// bytesUpTo is the access to a number of bytes, 1 at the least, as size reads it.
func bytesUpTo(field func(*Settings) *int, most int) access {
	want := strings.Replace(size(most).want, "bytes, up", "bytes, 1", 1)
	return access{
		want: want,
		get:  func(s *Settings) string { return strconv.Itoa(*field(s)) },
		set: func(s *Settings, text string) error {
			n, ok := parseSize(text, most)
			if !ok || n == 0 {
				return fmt.Errorf("want %s", want)
			}
			*field(s) = n
			return nil
		},
		check: func(s *Settings) bool { return *field(s) >= 1 && *field(s) <= most },
	}
}

// text is the access to a text that parse accepts.
func text[T ~string](field func(*Settings) *T, want string, parse func(string) (T, error)) access {
	return access{
		want: want,
		get:  func(s *Settings) string { return string(*field(s)) },
		set: func(s *Settings, text string) error {
			v, err := parse(text)
			if err == nil {
				*field(s) = v
			}
			return err
		},
		check: func(s *Settings) bool { v, err := parse(string(*field(s))); return err == nil && v == *field(s) },
	}
}

// inert makes the parameter of a setting that has no effect here. It is read, checked as VMA checks it, and shown. standard is its default, why
// says why it has no effect.
func inert(name, title, standard string, accepts accepted, state State, why string) Parameter {
	return Parameter{Name: name, Title: title, State: state, Effect: why, access: access{
		want: accepts.want,
		get: func(s *Settings) string {
			if v, ok := s.inert[name]; ok {
				return v
			}
			return standard
		},
		set: func(s *Settings, text string) error {
			value, ok := accepts.parse(text)
			if !ok {
				return fmt.Errorf("want %s", accepts.want)
			}
			s.storeInert(name, value)
			return nil
		},
		check: func(*Settings) bool { return true },
	}}
}

// storeInert stores the text of a setting that has no field.
func (s *Settings) storeInert(name, text string) {
	s.inert = maps.Clone(s.inert) // the settings are copied by value
	if s.inert == nil {
		s.inert = map[string]string{}
	}
	s.inert[name] = text
}

// accepted says which values an inert setting accepts.
type accepted struct {
	want  string                                    // in words
	parse func(text string) (value string, ok bool) // the value in its usual words
}

// within accepts a number from least to most.
func within(least, most int) accepted {
	return accepted{fmt.Sprintf("a number from %d to %d", least, most), func(text string) (string, bool) {
		n, err := strconv.Atoi(text)
		return strconv.Itoa(n), err == nil && n >= least && n <= most
	}}
}

// words accepts what a accepts, and the words of a list.
func (a accepted) words(list ...string) accepted {
	return accepted{a.want + ", " + strings.Join(list[:len(list)-1], ", ") + " or " + list[len(list)-1], func(text string) (string, bool) {
		if value, ok := a.parse(text); ok {
			return value, true
		}
		lower := strings.ToLower(text)
		return lower, slices.Contains(list, lower)
	}}
}

// orZero accepts 0, and what a accepts.
func (a accepted) orZero() accepted {
	return accepted{"0, or " + a.want, func(text string) (string, bool) {
		if text == "0" {
			return text, true
		}
		return a.parse(text)
	}}
}

// size accepts a number of bytes up to most, as XLIO writes it: with the suffix K, M or G, also followed by B, or without.
func size(most int) accepted {
	units := "K, KB, M, MB, G or GB"
	if most < 1<<20 {
		units = "K or KB"
	} else if most < 1<<30 {
		units = "K, KB, M or MB"
	}
	return accepted{fmt.Sprintf("bytes, up to %d, also with %s", most, units), func(text string) (string, bool) {
		n, ok := parseSize(text, most)
		return strconv.Itoa(n), ok
	}}
}

// parseSize reads a number of bytes up to most as size accepts it.
func parseSize(text string, most int) (bytes int, ok bool) {
	number, unit := strings.TrimSuffix(strings.ToUpper(text), "B"), 1
	for suffix, bytes := range map[string]int{"K": 1 << 10, "M": 1 << 20, "G": 1 << 30} {
		if rest, ok := strings.CutSuffix(number, suffix); ok {
			number, unit = rest, bytes
			break // a second suffix is a mistake
		}
	}
	n, err := strconv.Atoi(number)
	return n * unit, err == nil && n >= 0 && n <= most/unit
}

var (
	yesOrNo = accepted{"0 or 1", func(text string) (string, bool) {
		on, ok := onOrOff[strings.ToLower(text)]
		if on {
			return "1", ok
		}
		return "0", ok
	}}
	anyText = accepted{"a text", func(text string) (string, bool) { return text, true }}
	count   = within(0, 1<<31-1)
)
