package peers

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/bench/harness"
	"github.com/socketxtreme/socketxtreme/ring/ringtest/null"
)

// openLoop makes a loop of batch completions a turn.
type openLoop func(batch int) (turn func() (uint64, error), closing func() error, err error)

// blockCompletions is how many completions are timed at once: some 100 µs at most, so that most blocks see no timer tick, and
// the clock costs nothing.
const blockCompletions = 4096

// timedLoop times turns of batch completions in blocks, and prints the nanoseconds per completion of the blocks as a reading.
func timedLoop(name string, args []string, out, errs io.Writer, open openLoop) error {
	f := flag.NewFlagSet("bench peer "+name, flag.ContinueOnError)
	f.SetOutput(errs)
	batch := f.Int("batch", 1, "completions a turn")
	seconds := f.Float64("seconds", 1, "how long to measure, after a tenth of that to warm up")
	if err := f.Parse(args); err != nil {
		return harness.ErrUsage
	}
	switch {
	case f.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", f.Arg(0))
	case *batch < 1 || *batch > null.MostBatch:
		return fmt.Errorf("-batch %d: want 1 to %d", *batch, null.MostBatch)
	case !(*seconds >= 0.01 && *seconds <= 600):
		return fmt.Errorf("-seconds %g: want 0.01 to 600", *seconds)
	}
	turn, closing, err := open(*batch)
	if err != nil {
		return err
	}
	runtime.LockOSThread() // the CPU clock below is the thread's
	defer runtime.UnlockOSThread()
	length := time.Duration(*seconds * float64(time.Second))
	if _, err = timeBlocks(turn, *batch, length/10, nil); err == nil {
		var reading harness.Reading
		if reading, err = readLoop(turn, *batch, length); err == nil {
			err = json.NewEncoder(out).Encode(reading)
		}
	}
	return errors.Join(err, closing())
}

// readLoop measures for the given time.
func readLoop(turn func() (uint64, error), batch int, length time.Duration) (harness.Reading, error) {
	blocks := make([]float64, 0, 1<<16)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, from := threadCPU(), time.Now()
	blocks, err := timeBlocks(turn, batch, length, blocks)
	if err != nil {
		return harness.Reading{}, err
	}
	wall, used := time.Since(from).Seconds(), threadCPU()-cpu
	runtime.ReadMemStats(&after)
	n := uint64(len(blocks) * (blockCompletions / batch * batch))
	at := func(q float64) float64 { return harness.Quantile(blocks, q) }
	r := harness.Reading{Mode: harness.Loop, Seconds: wall, N: n, Sent: n, P10: at(0.1), P25: at(0.25), P50: at(0.5), P75: at(0.75),
		P90: at(0.9), P99: at(0.99), P999: at(0.999), Max: at(1), Rate: float64(n) / wall, Windows: 1,
		HostLostFraction: max(1-used/wall, 0), ServerCPUSeconds: used}
	r.WindowMS = uint64(length.Milliseconds())
	r.Mallocs, r.HasMallocs = after.Mallocs-before.Mallocs, true
	r.BestWindowRate, r.MedianWindowRate = r.Rate, r.Rate
	return r, nil
}

// timeBlocks appends the nanoseconds per completion of as many blocks as fit into the time; at least one.
func timeBlocks(turn func() (uint64, error), batch int, length time.Duration, blocks []float64) ([]float64, error) {
	turns := blockCompletions / batch
	for end := time.Now().Add(length); ; {
		from := time.Now()
		for range turns {
			if _, err := turn(); err != nil { // called through a variable: the compiler cannot leave out what it reads
				return blocks, err
			}
		}
		now := time.Now()
		blocks = append(blocks, float64(now.Sub(from))/float64(turns*batch))
		if now.After(end) {
			return blocks, nil
		}
	}
}

// threadCPU is the CPU time of the calling thread, in seconds.
func threadCPU() float64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(fmt.Sprintf("clock of the thread: %v", err)) // every Linux has it
	}
	return float64(t.Sec) + float64(t.Nsec)/1e9
}
