package peers

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/socketxtreme/socketxtreme/bench/harness"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/ringtest/null"
	"github.com/socketxtreme/socketxtreme/stats"
)

// The same loops as layerLoop and stackLoop with what xtreme does for published statistics: counters in a file, its sampler, gaps between
// polls; and with a reader of the file.
var layerPublished = harness.Peer{
	Name: "ours-published", About: "\"ours\" with counters in a statistics file that is being read", Go: true, Protos: []string{"memory"},
	Subcommands: []harness.Subcommand{{Name: "layerpublished", Run: timeLayerPublished}},
}

var stackPublished = harness.Peer{
	Name: "ours-stack-published", About: "\"ours-stack\" with counters in a statistics file that is being read", Go: true, Protos: []string{"memory"},
	Subcommands: []harness.Subcommand{{Name: "stackpublished", Run: timeStackPublished}},
}

func timeLayerPublished(args []string, out, errs io.Writer) error {
	return timedLoop("layerpublished", args, out, errs, func(batch int) (func() (uint64, error), func() error, error) {
		p, err := openPublication()
		if err != nil {
			return nil, nil, err
		}
		l, err := null.NewLayer(batch, p.configure)
		if err != nil {
			return nil, nil, errors.Join(err, p.close())
		}
		return l.Turn, func() error { return errors.Join(l.Close(), p.close()) }, nil
	})
}

func timeStackPublished(args []string, out, errs io.Writer) error {
	return timedLoop("stackpublished", args, out, errs, func(batch int) (func() (uint64, error), func() error, error) {
		p, err := openPublication()
		if err != nil {
			return nil, nil, err
		}
		turn, closing, err := openStackLoop(batch, true, p.configure)
		if err != nil {
			return nil, nil, errors.Join(err, p.close())
		}
		return turn, func() error { return errors.Join(closing(), p.close()) }, nil
	})
}

// publication is a statistics file with a reader, as xtstat with an interval of a tenth of a second is one.
type publication struct {
	directory string
	file      *null.Published
	stop      chan struct{}
	stopped   chan error
}

// readEvery is the interval of the reader.
const readEvery = 100 * time.Millisecond

func openPublication() (*publication, error) {
	directory, err := os.MkdirTemp("", "bench-published-")
	if err != nil {
		return nil, err
	}
	p := &publication{directory: directory, stop: make(chan struct{}), stopped: make(chan error, 1)}
	if p.file, err = null.NewPublished(directory + "/stats"); err != nil {
		return nil, errors.Join(err, os.RemoveAll(directory))
	}
	r, err := stats.Open(p.file.Path())
	if err != nil {
		return nil, errors.Join(err, p.file.Close(), os.RemoveAll(directory))
	}
	go func() { p.stopped <- p.read(r) }()
	return p, nil
}

// read reads all blocks of the file until close.
func (p *publication) read(r *stats.Reader) error {
	every := time.NewTicker(readEvery)
	defer every.Stop()
	for {
		for _, section := range []string{stats.Pollers, stats.Rings, stats.Sockets} {
			r.Blocks(section)
		}
		select {
		case <-every.C:
		case <-p.stop:
			return r.Close()
		}
	}
}

func (p *publication) configure(c *ring.SetConfig) { p.file.Configure(c, &c.Pool.Pool) }

// close ends the reader and the file, when the ring is closed.
func (p *publication) close() error {
	close(p.stop)
	return errors.Join(<-p.stopped, p.file.Close(), os.RemoveAll(p.directory))
}
