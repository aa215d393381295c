package harness

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Report is the whole result of a run, as the JSON file has it.
type Report struct {
	Settings    Settings `json:"settings"`
	Rows        []Result `json:"rows"`
	Interrupted bool     `json:"interrupted"`
}

// Settings is everything about a run that its numbers depend on.
type Settings struct {
	Started    time.Time         `json:"started"`
	Quick      bool              `json:"quick"`
	Kernel     string            `json:"kernel"`
	CPU        string            `json:"cpu"`
	CPUs       int               `json:"cpus"`
	Go         string            `json:"go"`
	GCC        string            `json:"gcc"`
	Network    string            `json:"network"`
	Message    int               `json:"message_bytes"`
	Pinning    string            `json:"pinning"`
	ServerCPU  int               `json:"server_cpu"` // -1: not bound
	ClientCPU  int               `json:"client_cpu"`
	GOMAXPROCS int               `json:"gomaxprocs"` // of every Go server
	Ours       []string          `json:"ours"`
	Servers    map[string]string `json:"servers"`
	Retries    int               `json:"retries"`
	HostLost   float64           `json:"host_lost_limit"`
	Ratio      string            `json:"ratio"`
}

// settings describes the run for the report: machine, versions, processors, peers.
func (h *runner) settings() Settings {
	s := Settings{
		Started: time.Now().UTC(), Quick: h.o.Quick, Kernel: kernelRelease(), CPU: cpuModel(), CPUs: runtime.NumCPU(),
		Go: runtime.Version(), GCC: h.gcc, Message: MessageSize, Pinning: h.pinnedNote,
		Network:   h.registry.Network,
		ServerCPU: h.serverCPU, ClientCPU: h.clientCPU, GOMAXPROCS: h.o.Procs, Ours: h.o.Ours,
		Servers: map[string]string{}, Retries: h.o.Retries, HostLost: mostHostLost,
		Ratio: "times better than the peer: peer/ours for latency and CPU time, ours/peer for rates; median of the rounds",
	}
	for _, p := range h.registry.Peers {
		s.Servers[p.Name] = p.About
	}
	return s
}

// kernelRelease returns name and release of the kernel.
func kernelRelease() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "unknown: " + err.Error()
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
}

// cpuModel returns the name of the processor.
func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown: " + err.Error()
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// print writes the description of the run.
func (s Settings) print(w io.Writer) {
	fmt.Fprintf(w, "%s, %d CPUs (%s), %s, %s\n", s.Kernel, s.CPUs, s.CPU, s.Go, s.GCC)
	fmt.Fprintf(w, "%s, %d-byte messages where the row names no size; %s; Go servers with GOMAXPROCS=%d\n",
		s.Network, s.Message, s.Pinning, s.GOMAXPROCS)
	fmt.Fprintf(w, "ratio: %s [min q1 q3 max]\n", s.Ratio)
	if s.Quick {
		fmt.Fprintln(w, "quick: shape and losses only; the numbers are those of very short rounds and judge nothing")
	}
}

// print writes one row of the report.
func (r Result) print(w io.Writer) {
	if r.Ratio == nil {
		fmt.Fprintf(w, "%-75s %s: %s\n", r.Name, r.Status, r.Reason)
		return
	}
	goal := "      -"
	if r.Goal != nil {
		goal = fmt.Sprintf("%7.3f", *r.Goal)
	}
	verdict := string(r.Status)
	if r.Status == Met && !*r.Steady {
		verdict = "met, not by the worst quartile"
	}
	var noisy, repeated int
	for _, round := range r.Rounds {
		repeated += round.Attempts - 1
		if round.Noisy {
			noisy++
		}
	}
	fmt.Fprintf(w, "%-75s %12s beside %12s  ratio %7.3f [%.2f %.2f %.2f %.2f] goal %s  %s", r.Name,
		r.show(r.Ours.Value), r.show(r.Peer.Value), *r.Ratio, r.Spread.Min, r.Spread.Q1, r.Spread.Q3,
		r.Spread.Max, goal, verdict)
	if r.Reason != "" {
		fmt.Fprintf(w, ": %s", r.Reason)
	}
	if noisy > 0 || repeated > 0 {
		fmt.Fprintf(w, " (%d of %d rounds noisy, %d repeats)", noisy, len(r.Rounds), repeated)
	}
	if r.Allowed > 0 {
		fmt.Fprintf(w, " (%.1f ns more, %g allowed)", r.Ours.Value-r.Peer.Value, r.Allowed)
	}
	if r.Ours.Offered > 0 && r.overload {
		fmt.Fprintf(w, " (received of %s and %s that were sent)", r.show(r.Ours.Offered), r.show(r.Peer.Offered))
	} else if r.Ours.Offered > 0 {
		fmt.Fprintf(w, " (highest rate at which at most %g is lost)", fewLost)
	} else if lost := r.Ours.Lost + r.Peer.Lost; lost > 0 && r.Status != Failed {
		fmt.Fprintf(w, " (dropped of a flood: %.1f %% and %.1f %%)", share(r.Ours.Lost, r.Ours.Sent),
			share(r.Peer.Lost, r.Peer.Sent))
	}
	fmt.Fprintln(w)
}

func share(part, whole uint64) float64 { return 100 * float64(part) / float64(max(whole, 1)) }

// summary counts the rows by what became of them.
func (r *Report) summary(w io.Writer) {
	counts := map[Status]int{}
	for _, row := range r.Rows {
		counts[row.Status]++
	}
	var parts []string
	for _, s := range []Status{Met, Missed, Measured, NotRun, Failed} {
		if counts[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[s], s))
		}
	}
	fmt.Fprintf(w, "\n%d rows: %s\n", len(r.Rows), strings.Join(parts, ", "))
}

// Write puts the report into a file, whole or not at all.
func (r *Report) Write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("-json %s: %w", path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".bench-*.json")
	if err != nil {
		return fmt.Errorf("-json %s: %w", path, err)
	}
	_, err = f.Write(append(text, '\n'))
	if e := f.Chmod(0o644); err == nil {
		err = e
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("-json %s: %w", path, err)
	}
	return nil
}

// Problems are the reasons for an exit code of 1: rows that failed or are malformed, nothing measured at all, an
// interruption, and with -strict also goals missed and rows not run.
func (r *Report) Problems(o Options) []string {
	var out []string
	measured := 0
	for _, row := range r.Rows {
		out = append(out, row.malformed()...)
		if row.Ratio != nil {
			measured++
		}
		switch {
		case row.Status == Failed:
			out = append(out, row.Name+" failed: "+row.Reason)
		case o.Strict && row.Status == Missed:
			out = append(out, fmt.Sprintf("%s missed its goal: %.3f of %.3f", row.Name, *row.Ratio, *row.Goal))
		case o.Strict && row.Status == NotRun:
			out = append(out, row.Name+" was not run: "+row.Reason)
		}
	}
	if measured == 0 {
		out = append(out, "nothing was measured")
	}
	if r.Interrupted {
		out = append(out, "interrupted: the rows are not complete")
	}
	return out
}
