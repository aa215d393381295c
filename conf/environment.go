package conf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// SettingsFile is the environment's name for a settings file: see FromFile.
const SettingsFile = "SX_SETTINGS_FILE"

// FromEnvironment returns the settings of the environment, over those of the file that SX_SETTINGS_FILE names, over the defaults. It never
// fails: what cannot be used is in Settings.Warnings, a file that cannot be read too.
func FromEnvironment() Settings {
	path := os.Getenv(SettingsFile)
	if path == "" {
		return read(nil, environ())
	}
	s, err := FromFile(path)
	if err != nil {
		s = read(nil, environ())
		s.Warnings = append(s.Warnings, fmt.Sprintf("%s=%q: %v; it is left out", SettingsFile, path, errors.Unwrap(err)))
	}
	return s
}

// FromFile returns the settings of the environment over those of a file over the defaults. An error says that the file cannot be read.
//
// The file has lines NAME=VALUE, with the names of the environment. "export" before a name, quotes around a value, empty lines and lines that
// begin with "#" are allowed. Any other line, an unknown name and a value that cannot be used are warnings (Settings.Warnings).
func FromFile(path string) (Settings, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Default(), fmt.Errorf("conf: settings file: %w", err)
	}
	file, warnings := parseFile(path, string(text))
	s := read(file, environ())
	s.Warnings = append(warnings, s.Warnings...)
	return s, nil
}

// source has the values of one place, the environment or a file, by the name under which each is given.
type source map[string]setting

// setting is a value as text. where begins a warning about it: file and line, or "" for the environment.
type setting struct{ text, where string }

// environ returns all variables of the environment.
func environ() source {
	e := source{}
	for _, pair := range os.Environ() {
		if name, text, ok := strings.Cut(pair, "="); ok {
			e[name] = setting{text: text}
		}
	}
	return e
}

// parseFile reads the text of a settings file. It returns the known settings in it, and warnings for the lines that are left out.
func parseFile(path, text string) (source, []string) {
	var warnings []string
	file := source{}
	for i, line := range strings.Split(text, "\n") {
		where := fmt.Sprintf("%s:%d: ", path, i+1)
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			warnings = append(warnings, fmt.Sprintf("%s%q: want NAME=VALUE; the line is left out", where, line))
			continue
		}
		if value = strings.TrimSpace(value); len(value) > 1 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0] {
			value = value[1 : len(value)-1]
		}
		if name == SettingsFile {
			warnings = append(warnings, where+name+" has no effect: it stands in a settings file, which names no further one")
			continue
		}
		if w, unused := unusedName(name); unused || !known(name) {
			warnings = append(warnings, where+w)
			continue
		}
		file[name] = setting{value, where}
	}
	return file, warnings
}

// fromEnvironment is FromEnvironment without a file, on a function such as os.LookupEnv, for tests.
func fromEnvironment(lookup func(string) (string, bool)) Settings {
	e := source{}
	for name := range byName {
		if text, ok := lookup(name); ok {
			e[name] = setting{text: text}
		}
	}
	return read(nil, e)
}

// read makes the settings: the defaults, then the profile that file or environment names, then the file, then the environment. Later ones
// override earlier ones.
func read(file, env source) Settings {
	s := Default()
	for name := range env {
		if w, unused := unusedName(name); unused {
			s.Warnings = append(s.Warnings, w)
		}
	}
	slices.Sort(s.Warnings)
	spec := byName["VMA_SPEC"]
	for _, from := range []source{file, env} {
		s.take(spec, from)
	}
	if name := s.Profile; name != "" {
		if err := s.applyProfile(name); err != nil {
			s.Warnings = append(s.Warnings, err.Error())
		}
	}
	force := byName[forceName]
	for _, from := range []source{file, env} {
		s.take(force, from)
	}
	if force.get(&s) == "1" {
		s.OSRatio = 1 // before the ratio (VMA_SELECT_POLL_OS_RATIO), which overrides it wherever it is given
	}
	for _, from := range []source{file, env} {
		for i := range parameters {
			if p := &parameters[i]; p != spec && p != force {
				s.take(p, from)
			}
		}
	}
	s.noteStarts()
	return s
}

// take sets a parameter from a source. A parameter may have several names: the newest one counts whose value can be used, and another value
// under an older name is a warning.
func (s *Settings) take(p *Parameter, from source) {
	taken, by := "", ""
	for _, name := range p.names() {
		v, ok := from[name]
		switch {
		case !ok:
		case by == "":
			if err := p.set(s, v.text); err != nil {
				defer s.warn(p, v.where+name, v.text, err) // when an older name may have set the value
				continue
			}
			taken, by = v.text, name
			s.noteGiven(p, v.where+name, v.text)
			if slices.Contains(p.Old, name) {
				s.Warnings = append(s.Warnings, fmt.Sprintf("%s%s is an old name of %s", v.where, name, p.Name))
			}
		case v.text != taken:
			s.Warnings = append(s.Warnings, fmt.Sprintf("%s%s=%q: %s says otherwise and counts", v.where, name, v.text, by))
		}
	}
}

// warn adds the warning that a value cannot be used, and which value holds instead.
func (s *Settings) warn(p *Parameter, name, text string, err error) {
	stays := "the default is used"
	if v := p.get(s); v != p.Default() {
		stays = v + " stays"
	}
	s.Warnings = append(s.Warnings, fmt.Sprintf("%s=%q: %v; %s", name, text, err, stays))
}

// notOurs are names that VMA reads and that are no settings here, with the reason.
var notOurs = map[string]string{
	"VMA_SPEC_PARAM1": ofProducts, "VMA_SPEC_PARAM2": ofProducts, "VMA_TIME_MEASURE_NUM_SAMPLES": ofMeasuring, "VMA_TIME_MEASURE_DUMP_FILE": ofMeasuring,
}

const (
	ofProducts  = "it is of VMA's profiles for single products"
	ofMeasuring = "it is of a build of VMA that measures itself"
)

// unusedName reports whether a name is one of VMA's that has no meaning here, or looks like a setting and does not exist. The warning for such a
// name is returned for every name: in a file each unknown name is warned about, in the environment only those that look like settings.
func unusedName(name string) (warning string, unused bool) {
	if why := notOurs[name]; why != "" {
		return name + " has no effect: " + why, true
	}
	return name + ": there is no such setting", looksLikeSetting(name)
}

// known reports whether a name is one of a setting, old names and those without effect included.
func known(name string) bool {
	_, other := notOurs[name]
	return byName[name] != nil || other || name == SettingsFile
}

// looksLikeSetting reports whether a name begins as those of settings and is not known.
func looksLikeSetting(name string) bool {
	return (strings.HasPrefix(name, "VMA_") || strings.HasPrefix(name, "XLIO_") || strings.HasPrefix(name, "SX_")) && !known(name)
}

// DefaultRulesFile is the rules file that is read if no other is named, as in VMA.
const DefaultRulesFile = "/etc/libvma.conf"

// RulesText returns the text of the rules file. If no file is named and the default one does not exist, it returns the rules that come with the
// library, and shipped is true. A file that is named, by VMA_CONFIG_FILE or by code, must exist.
func (s *Settings) RulesText() (text string, shipped bool, err error) {
	b, err := os.ReadFile(OfProcess(s.RulesFile))
	if errors.Is(err, fs.ErrNotExist) && s.RulesFile == DefaultRulesFile && s.Given("VMA_CONFIG_FILE") == "" {
		return ShippedRules, true, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("conf: rules file: %w", err)
	}
	return string(b), false, nil
}

// Rules parses the text that RulesText returns.
func (s *Settings) Rules() (*Rules, error) {
	text, _, err := s.RulesText()
	if err != nil {
		return nil, err
	}
	r, err := ParseRules(text)
	if err != nil {
		return nil, fmt.Errorf("conf: rules file %s: %w", OfProcess(s.RulesFile), errors.Unwrap(err))
	}
	return r, nil
}
