package conf

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// Entry is one setting as it is printed.
type Entry struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Value   string `json:"value"`
	Default string `json:"default"`
	Changed bool   `json:"changed"`
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
		list = append(list, e)
	}
	return list
}

// WriteJSON writes all settings as a JSON array of Entry.
func (s *Settings) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(s.Entries())
}

// Lines is the settings as VMA prints them when it starts, one line each: the log level and those that are not at their default, or all.
// What a setting without effect was set to is followed by why it has none.
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

// Announce writes what VMA prints when it starts, as far as VMA_TRACELEVEL asks for it: changed settings at info, all at details.
func (s *Settings) Announce(l *slog.Logger) {
	if !s.LogLevel.Includes(LogInfo) {
		return
	}
	for _, line := range s.Lines(s.LogLevel.Includes(LogDetails)) {
		l.Info(line)
	}
}

// ringsText is the kinds of ring on which a parameter has an effect.
func (p *Parameter) ringsText() string {
	switch {
	case p.Field == "":
		return "none"
	case p.Rings == nil:
		return "all"
	}
	return strings.ReplaceAll(kindsText(p.Rings), " and ", ", ")
}

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
			standard += " (VMA: " + p.VMA + ")"
		}
		name := "`" + p.Name + "`"
		for _, o := range p.Old {
			name += ", old: `" + o + "`"
		}
		here := p.Effect
		if p.State != Works {
			here = string(p.State) + ": " + here
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", name, cell(standard), cell(p.want), p.ringsText(), cell(here))
	}
	return b.String()
}
