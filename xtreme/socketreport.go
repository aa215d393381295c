package xtreme

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/stats"
)

// socketReport is the file of VMA_STATS_FILE: what each socket has counted is appended to it when the socket is closed. Engines with the same
// file share one, which the first empties, and the last closes.
type socketReport struct {
	info  os.FileInfo // which file it is: it may have several names
	users int         // engines; under socketReports' lock

	mu     sync.Mutex
	file   *os.File
	failed error // of the first write that failed
}

var socketReports struct {
	sync.Mutex
	open []*socketReport
}

// openSocketReport opens the file that the settings name, "%d" in the name being the process; nil without one. What is there and is no plain
// file is refused, as VMA does. A file that cannot be had is a warning in the log; VMA_EXCEPTION_HANDLING decides whether it is also an error.
func (e *Engine) openSocketReport() error {
	if e.settings.StatsFile == "" {
		return nil
	}
	socketReports.Lock()
	defer socketReports.Unlock()
	r, err := shareSocketReport(conf.OfProcess(e.settings.StatsFile))
	if err != nil {
		err = fmt.Errorf("VMA_STATS_FILE=%s: %w", e.settings.StatsFile, err)
		e.log.Warn("nothing is written when sockets are closed", "error", err)
		return e.exception("setting", err)
	}
	r.users++
	e.socketReport = r
	return nil
}

// shareSocketReport returns the report of the file with a path: that of an engine which has the file, or a new one, for which it empties the
// file. With socketReports' lock.
func shareSocketReport(path string) (*socketReport, error) {
	f, info, err := openPlain(path)
	if err != nil {
		return nil, err
	}
	for _, r := range socketReports.open {
		if os.SameFile(r.info, info) {
			return r, f.Close()
		}
	}
	if err := f.Truncate(0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r := &socketReport{info: info, file: f}
	socketReports.open = append(socketReports.open, r)
	return r, nil
}

// openPlain opens a file for appending. What is not a plain file is an error.
func openPlain(path string) (*os.File, os.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY|unix.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no plain file: %w", path, unix.EINVAL)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// close is called by each engine that has the file. The last one writes the line at the end, as VMA does at exit, and closes the file.
func (r *socketReport) close() error {
	if r == nil {
		return nil
	}
	socketReports.Lock()
	defer socketReports.Unlock()
	if r.users--; r.users > 0 {
		return nil
	}
	socketReports.open = slices.DeleteFunc(socketReports.open, func(x *socketReport) bool { return x == r })
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write(stats.Rule)
	err := errors.Join(r.failed, r.file.Close())
	if err != nil {
		return fmt.Errorf("xtreme: statistics of closed sockets: %w", err)
	}
	return nil
}

// write appends to the file, unless a write has failed before. With the lock.
func (r *socketReport) write(text string) {
	if r.failed == nil {
		_, r.failed = r.file.WriteString(text)
	}
}

// reporting is a Monitor that also writes what a socket has counted into the file of VMA_STATS_FILE. Sockets for which the Monitor has no room
// count in pages of its own.
type reporting struct {
	ring.Monitor
	to          *socketReport
	unpublished map[*ring.Socket]struct{}
}

var _ ring.EndMonitor = &reporting{}

// OpenSocket gives a socket the Monitor's page, or one that is not published.
func (x *reporting) OpenSocket(s *ring.Socket) *ring.SocketPage {
	page := x.Monitor.OpenSocket(s)
	if page == nil {
		x.unpublished[s] = struct{}{}
		page = &ring.SocketPage{}
	}
	return page
}

// CloseSocket is called when a socket is closed.
func (x *reporting) CloseSocket(s *ring.Socket) {
	if _, own := x.unpublished[s]; own {
		delete(x.unpublished, s)
		return
	}
	x.Monitor.CloseSocket(s)
}

// DescribeSocket is for the sockets that are published.
func (x *reporting) DescribeSocket(s *ring.Socket) {
	if _, own := x.unpublished[s]; !own {
		x.Monitor.DescribeSocket(s)
	}
}

// EndSocket is called when a socket is closed. It writes into the file at once, on the goroutine that closes.
func (x *reporting) EndSocket(s *ring.Socket, counts *ring.SocketPage) {
	words := make([]uint64, stats.SectionOf(stats.Sockets).Words())
	last := sys.Overlay[ring.SocketPage](words)
	*last = *counts
	if s.Path().Tier == ring.TierBypass { // the stack has let go of it
		last.Offloaded = 1
	}
	view := stats.ViewOf(stats.Sockets, uint64(uint32(s.ID())), describe(s), words)
	of := stats.View{Totals: map[string]uint64{}}
	if r := s.Ring(); r != nil {
		of.Totals["polls"], of.Totals["hits"] = ring.PollsOf(r)
	}
	var text strings.Builder
	stats.WriteSocket(&text, &view, &of, "")
	x.to.mu.Lock()
	defer x.to.mu.Unlock()
	x.to.write(text.String())
}

// unpublished is a Monitor without any memory for counters.
type unpublished struct{}

// OpenRing is ring.Monitor's, as the following ones.
func (unpublished) OpenRing(*ring.Ring) *ring.RingPage { return nil }

// CloseRing does nothing.
func (unpublished) CloseRing(*ring.Ring) {}

// OpenSocket has no room for the socket.
func (unpublished) OpenSocket(*ring.Socket) *ring.SocketPage { return nil }

// CloseSocket does nothing.
func (unpublished) CloseSocket(*ring.Socket) {}

// SkipSocket does nothing.
func (unpublished) SkipSocket() {}

// DescribeSocket does nothing.
func (unpublished) DescribeSocket(*ring.Socket) {}

// Refresh does nothing.
func (unpublished) Refresh(*ring.Ring) {}

// Happened does nothing.
func (unpublished) Happened(*ring.Socket, ring.Happening, string) {}
