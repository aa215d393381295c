package peers

import (
	"io"

	"github.com/socketxtreme/socketxtreme/bench/harness"
	"github.com/socketxtreme/socketxtreme/ring/ringtest/null"
)

// The ring alone: no kernel, no engine. xtreme makes the same ring over a driver of its own.
var layerLoop = harness.Peer{
	Name: "ours", About: "SocketXtreme, one ring over a driver without a kernel", Go: true, Protos: []string{"memory"},
	Subcommands: []harness.Subcommand{{Name: "layer", Run: timeLayer}},
}

var bareLoop = harness.Peer{
	Name: "bare", About: "Go, the loop of \"ours\" without a ring", Go: true, Protos: []string{"memory"},
	Subcommands: []harness.Subcommand{{Name: "bare", Run: timeBare}},
}

// timeLayer times the completion layer of this library alone: Poll, Bytes, Release over a driver that asks no kernel.
func timeLayer(args []string, out, errs io.Writer) error {
	return timedLoop("layer", args, out, errs, func(batch int) (func() (uint64, error), func() error, error) {
		l, err := null.NewLayer(batch)
		if err != nil {
			return nil, nil, err
		}
		return l.Turn, l.Close, nil
	})
}

// timeBare times the same work without a ring.
func timeBare(args []string, out, errs io.Writer) error {
	return timedLoop("bare", args, out, errs, func(batch int) (func() (uint64, error), func() error, error) {
		b, err := null.NewBare(batch)
		if err != nil {
			return nil, nil, err
		}
		return func() (uint64, error) { return b.Turn(), nil }, b.Close, nil
	})
}
