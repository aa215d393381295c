package conf

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strings"
)

// Entry is one setting with its value, as it is printed.
type Entry struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Value   string `json:"value"`
	Default string `json:"default"`
	Changed bool   `json:"changed"`
	Origin  string `json:"origin"` // where the value comes from: how it was given, the profile, or "default"
	State   State  `json:"state"`
	Effect  string `json:"effect"`
}

// Entries lists all settings with their values.
func (s *Settings) Entries() []Entry {
	list := make([]Entry, 0, len(parameters))
	for i := range parameters {
		p := &parameters[i]
		e := Entry{Name: p.Name, Title: p.Title, Value: p.get(s), Default: p.Default(), State: p.State, Effect: p.Effect}
		e.Changed = e.Value != e.Default
		e.Origin = s.origin(p.Name, e.Changed)
		list = append(list, e)
	}
	return list
}

// origin is where the value of a setting comes from. Values that were not given and are not the default are of the profile.
func (s *Settings) origin(name string, changed bool) string {
	given := s.Given(name)
	switch {
	case given != "":
		return given
	case changed && s.Profile != "":
		return "profile " + s.Profile
	}
	return "default"
}

// WriteJSON writes all settings as a JSON array of Entry.
func (s *Settings) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(s.Entries())
}

// Lines returns the settings in the form in which VMA prints them when it starts, one line each: all, or only the log level and those that do
// not have their default. A changed setting without effect is followed by the reason.
func (s *Settings) Lines(all bool) []string {
	const rule = "---------------------------------------------------------------------------"
	list := []string{rule}
	for _, e := range s.Entries() {
		if !all && !e.Changed && e.Name != "VMA_TRACELEVEL" {
			continue
		}
		line := fmt.Sprintf("%-30s %-26s [%s]", e.Title, e.Value, e.Name)
		if e.Changed && e.State != Works && e.State != Partly {
			line += " " + string(e.State) + ": " + e.Effect
		}
		list = append(list, line)
	}
	return append(list, rule)
}

// Announce logs the version, the command line and the settings as VMA does when it starts: with VMA_TRACELEVEL info the changed settings, from
// details on all, below info nothing.
func (s *Settings) Announce(l *slog.Logger) {
	if !s.LogLevel.Includes(LogInfo) {
		return
	}
	for _, line := range slices.Insert(s.Lines(s.LogLevel.Includes(LogDetails)), 1, banner()...) {
		l.Info(line)
	}
}

// ringsText says in words on which kinds of ring a parameter has an effect.
func (p *Parameter) ringsText() string {
	switch {
	case p.Field == "":
		return "none"
	case p.Rings == nil:
		return "all"
	}
	return strings.ReplaceAll(kindsText(p.Rings), " and ", ", ")
}

// guide is how the texts of parameters name a page of docs, and a section of it; in docs/settings.md it is a link.
var guide = regexp.MustCompile(`docs/([a-z-]+)\.md(#[a-z-]+)?`)

// Markdown is the table of all settings as docs/settings.md has it.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| setting | default | values | rings | here |\n|---|---|---|---|---|\n")
	cell := func(s string) string { return strings.NewReplacer("|", "\\|", "*", "\\*", "_", "\\_").Replace(s) }
	for i := range parameters {
		p := &parameters[i]
		standard := p.Default()
		if standard == "" {
			standard = "(empty)"
		}
		if p.VMA != "" {
			where, _, _ := strings.Cut(p.Name, "_") // XLIO, for a setting that VMA has not
			standard += " (" + where + ": " + p.VMA + ")"
		}
		name := "`" + p.Name + "`"
		for _, a := range p.Also {
			name += ", also: `" + a + "`"
		}
		for _, o := range p.Old {
			name += ", old: `" + o + "`"
		}
		here := p.Effect
		if p.State != Works {
			here = string(p.State) + ": " + here
		}
		here = guide.ReplaceAllString(cell(here), "[$1.md]($1.md$2)")
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", name, cell(standard), cell(p.want), p.ringsText(), here)
	}
	return b.String()
}
