// Package version tells the version of this module. The start-up lines of an engine and the statistics file of a process have it.
package version

import "runtime/debug"

const module = "github.com/socketxtreme/socketxtreme"

// OfModule is the version of this module that the program was built with; "" if the build has no module information.
func OfModule() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return in(info)
}

// in is the version of this module in a program's build information.
func in(info *debug.BuildInfo) string {
	if info.Main.Path == module {
		return info.Main.Version
	}
	for _, d := range info.Deps {
		if d.Path == module {
			return d.Version
		}
	}
	return ""
}
