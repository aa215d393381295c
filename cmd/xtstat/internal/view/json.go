package view

import (
	"encoding/json"
	"io"
	"time"

	"github.com/socketxtreme/socketxtreme/stats"
)

// sectionsOf are the sections that a view shows.
var sectionsOf = map[int][]string{
	1: {stats.Sockets, stats.Pollers, stats.Rings}, 2: {stats.Sockets, stats.Pollers, stats.Rings},
	3: {stats.Sockets, stats.Pollers, stats.Rings, stats.Drops, stats.Drivers, stats.Feeds, stats.Lines}, 4: {stats.Sockets}, 5: {stats.Sockets},
}

type jsonBlock struct {
	Index  int               `json:"index"`
	Parent int               `json:"parent,omitempty"`
	ID     uint64            `json:"id"`
	Opened time.Time         `json:"opened"`
	Info   map[string]string `json:"info,omitempty"`
	Values map[string]uint64 `json:"values"` // since the baseline; rates per second with "seconds"
}

type jsonView struct {
	View        int                    `json:"view"`
	Process     stats.Process          `json:"process"`
	Time        time.Time              `json:"time"`
	Seconds     float64                `json:"seconds,omitempty"` // the interval of rates
	Blocks      map[string][]jsonBlock `json:"blocks"`
	Unpublished map[string]uint64      `json:"unpublished,omitempty"`
}

// JSON writes a view as one line.
func JSON(w io.Writer, s *Snapshot, view int) error {
	x := jsonView{View: view, Process: s.Process, Time: s.Time, Seconds: s.Interval.Seconds(), Blocks: map[string][]jsonBlock{}, Unpublished: map[string]uint64{}}
	for _, section := range sectionsOf[view] {
		list := []jsonBlock{}
		for _, v := range s.Blocks[section] {
			b := jsonBlock{Index: v.Index, Parent: v.Parent, ID: v.ID, Opened: v.Opened, Info: v.Info, Values: map[string]uint64{}}
			for _, name := range v.Names {
				b.Values[name] = v.Value(name)
			}
			list = append(list, b)
		}
		x.Blocks[section] = list
		if n := s.Left[section]; n > 0 {
			x.Unpublished[section] = n
		}
	}
	return json.NewEncoder(w).Encode(x)
}
