package conf

import "os"

// IsSet reports whether the environment, or the file that SX_SETTINGS_FILE names, sets a parameter, by any of its names and to a value that
// can be used. Code with another default in mind than ours gives way to that, even when the value is our default's.
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

// setBy looks for the parameter in a source: under any of its names, as Settings.take does.
func (p *Parameter) setBy(from source) bool {
	for _, name := range p.names() {
		s := Default()
		if v, ok := from[name]; ok && p.set(&s, v.text) == nil {
			return true
		}
	}
	return false
}
