package conf

import "os"

// IsSet reports whether the environment, or the file that SX_SETTINGS_FILE names, sets a parameter, under any of its names and to a value
// that can be used. A package with a default of its own asks it, and uses its default only if the answer is false.
func IsSet(name string) bool {
	p := byName[name]
	if p == nil {
		return false
	}
	if p.setBy(environ()) {
		return true
	}
	path := os.Getenv(SettingsFile)
	if path == "" {
		return false
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return false // FromEnvironment warns of it
	}
	file, _ := parseFile(path, string(text))
	return p.setBy(file)
}

// setBy reports whether a source has a usable value for the parameter under any of its names, as Settings.take would use it.
func (p *Parameter) setBy(from source) bool {
	for _, name := range p.names() {
		s := Default()
		if v, ok := from[name]; ok && p.set(&s, v.text) == nil {
			return true
		}
	}
	return false
}
