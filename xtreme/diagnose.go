package xtreme

import (
	"encoding/json"
	"io"
	"runtime/pprof"

	"github.com/socketxtreme/socketxtreme/conf"
)

// EngineSettings are the settings of an engine, as the request "settings" answers with them: a JSON array, an element for each engine.
type EngineSettings struct {
	Settings []conf.Entry `json:"settings"`
}

// writeSettings is the handler of the request "settings": the settings of all engines, with the origin of each value.
func (p *publication) writeSettings(_ json.RawMessage, w io.Writer) error {
	list := []EngineSettings{}
	p.mu.Lock()
	for _, e := range p.engines {
		list = append(list, EngineSettings{e.settings.Entries()})
	}
	p.mu.Unlock()
	return json.NewEncoder(w).Encode(list)
}

// writeGoroutines is the handler of the request "goroutines": where all goroutines of the process are, those at the same place together. The
// runtime stops the process for that, some ten microseconds for a hundred goroutines.
func (p *publication) writeGoroutines(_ json.RawMessage, w io.Writer) error {
	return pprof.Lookup("goroutine").WriteTo(w, 1)
}
