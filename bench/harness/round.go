package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
)

// mostHostLost is the part of a round that the host may take away before the round is repeated.
const mostHostLost = 0.05

// sparePart is how much of a case's own time may go into repeated turns: on a host that is never quiet a run ends all the same, with
// rounds marked noisy.
const sparePart = 4

// runner owns the compiled Programs and the CPUs of a run.
type runner struct {
	registry   *Registry
	o          Options
	programs   Programs
	dir        string
	gcc        string
	serverCPU  int // -1: not bound
	clientCPU  int
	pinnedNote string

	net    *Network // made when the first workload wants it
	netErr error
}

// newRunner compiles the C Programs and chooses the CPUs.
func newRunner(r *Registry, o Options) (h *runner, err error) {
	h = &runner{registry: r, o: o, serverCPU: o.ServerCPU, clientCPU: o.ClientCPU}
	if err := h.chooseCPUs(); err != nil {
		return nil, err
	}
	if h.dir, err = os.MkdirTemp("", "bench-"); err != nil {
		return nil, fmt.Errorf("folder for the C Programs: %w", err)
	}
	if h.programs, h.gcc, err = Compile(h.dir, r.Sources); err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

// close removes the network and the compiled programs.
func (h *runner) close() {
	if h.net != nil {
		h.net.Close()
	}
	_ = os.RemoveAll(h.dir)
}

// chooseCPUs chooses the processors of server and client, where the options name none.
func (h *runner) chooseCPUs() error {
	cpus, err := allowedCPUs()
	if err != nil {
		return err
	}
	if len(cpus) < 2 && h.serverCPU < 0 && h.clientCPU < 0 {
		h.pinnedNote = "not bound: this process may use one CPU only, so server and client take turns on it"
		return nil
	}
	if h.serverCPU < 0 {
		h.serverCPU = pick(cpus, h.clientCPU)
	}
	if h.clientCPU < 0 {
		h.clientCPU = pick(cpus, h.serverCPU)
	}
	h.pinnedNote = fmt.Sprintf("server on CPU %d, client on CPU %d", h.serverCPU, h.clientCPU)
	return nil
}

// pick returns the first CPU that is not the other side's.
func pick(cpus []int, other int) int {
	for _, cpu := range cpus {
		if cpu != other {
			return cpu
		}
	}
	return other
}

// pace is how long one measurement of w takes in this run, and rounds how many there are.
func (h *runner) pace(w Workload) (p Pace, rounds int) {
	p, rounds = Pace{Seconds: w.Seconds, Warmup: 0.3, Settle: 0.5}, w.Rounds
	if h.o.Quick {
		p, rounds = Pace{Seconds: 0.2, Warmup: 0.05, Settle: 0.1}, 1
		if w.Mode == Pipeline { // there are many of them
			p.Seconds, p.Warmup = 0.1, 0.02
		}
		if w.Mode == Flood { // a search, and then windows
			p.Seconds = 0.1
		}
	}
	if h.o.Seconds > 0 {
		p.Seconds = h.o.Seconds
	}
	if h.o.Rounds > 0 {
		rounds = h.o.Rounds
	}
	return p, rounds
}

// estimate is the time the cases need when no turn is repeated.
func (h *runner) estimate(cases []Case) time.Duration {
	const startAndStop = 0.1
	var seconds float64
	for _, c := range cases {
		for _, e := range c.Entrants {
			p, rounds := h.pace(e.Workload)
			turn := p.Seconds + startAndStop
			if e.Workload.Mode == Flood {
				turn += floodSearch * p.Seconds
			} else if e.Workload.Mode != Loop {
				// Opening a connection includes one exchange on it, some 80 µs in all; idle ones have another at the end.
				turn += p.Warmup + 80e-6*float64(e.Workload.Conns) + 100e-6*float64(e.Workload.Beside)
			}
			if e.Workload.Beside > 0 || e.Workload.Mode == Idle {
				turn += 2 * p.Settle
			}
			seconds += float64(rounds) * turn
		}
	}
	return time.Duration(seconds * float64(time.Second)).Round(time.Second)
}

// measure lets the entrants of a case take turns. One that failed is left out of the rounds that follow: the others do not need it.
func (h *runner) measure(ctx context.Context, c Case) map[Entrant]*Record {
	records := map[Entrant]*Record{}
	servers := map[Entrant]Peer{}
	rounds, spare := 0, h.estimate([]Case{c})/sparePart
	for _, e := range c.Entrants {
		r := &Record{}
		records[e] = r
		s, err := h.registry.Find(e.Peer)
		if err == nil {
			err = s.Check(e.Workload)
		}
		if err == nil && e.Workload.Veth {
			err = h.needNetwork()
		}
		if err != nil {
			r.NotRun = err.Error()
			continue
		}
		servers[e] = s
		_, n := h.pace(e.Workload)
		rounds = max(rounds, n)
	}
	for range rounds {
		for _, e := range c.Entrants {
			r := records[e]
			if r.over() || ctx.Err() != nil {
				continue
			}
			turn, err := h.quietTurn(e.Workload, &spare, func(p Pace) (Reading, error) {
				return h.turn(ctx, servers[e], e.Workload, p)
			})
			switch {
			case errors.Is(err, ErrRefused):
				r.NotRun = err.Error()
			case err != nil:
				r.Failed = err.Error()
			default:
				r.Turns = append(r.Turns, turn)
				r.Faults = append(r.Faults, turn.Reading.Faults(e.Workload)...)
			}
		}
	}
	return records
}

// quietTurn repeats a turn in which the host took too much time, a bounded number of times and while there is time to spare,
// and keeps the quietest. A quick run repeats only a turn that measured nothing at all, and gives it twice the time. A turn in which
// messages were lost or duplicated is never repeated: that is not noise.
func (h *runner) quietTurn(w Workload, spare *time.Duration, take func(Pace) (Reading, error)) (Turn, error) {
	p, _ := h.pace(w)
	var best Turn
	for attempt := 1; ; attempt++ {
		from := time.Now()
		r, err := take(p)
		if attempt > 1 {
			*spare -= time.Since(from)
		}
		if err != nil {
			return best, err
		}
		if attempt == 1 || len(r.Broken(w)) > 0 || r.better(best.Reading, w) {
			best.Reading = r
		}
		best.Attempts = attempt
		best.Noisy = best.Reading.disturbed() > mostHostLost
		blank := len(best.Reading.empty(w)) > 0
		noise := best.Noisy && !h.o.Quick && *spare > 0
		if len(best.Reading.Broken(w)) > 0 || !blank && !noise || attempt > h.o.Retries {
			return best, nil
		}
		if blank {
			p.Seconds *= 2
		}
	}
}

// turn is one server's part of a round: start it, let the client measure it, read its memory, stop it.
func (h *runner) turn(ctx context.Context, s Peer, w Workload, p Pace) (Reading, error) {
	if w.Mode == Loop {
		return h.loop(ctx, s, w, p)
	}
	var reading Reading
	server, err := StartServer(s, s.ServerCommand(h.programs, w), h.serverPlace(w), h.o.Procs)
	if err != nil {
		return reading, err
	}
	argv, env := s.ClientCommand(h.programs, w, p), os.Environ()
	if w.Both && s.Client != nil && s.Go {
		env = goEnvironment(h.o.Procs)
	}
	argv = append(argv, "-port", strconv.Itoa(server.Port), "-server-pid", strconv.Itoa(server.cmd.Process.Pid))
	if h.serverCPU >= 0 {
		argv = append(argv, "-server-cpu", strconv.Itoa(h.serverCPU))
	}
	limit := time.Duration((p.Seconds+p.Warmup+2*p.Settle)*float64(time.Second)) + 45*time.Second
	if w.Mode == Flood {
		limit *= 16 // as often as it may try
	}
	line, _, err := RunProgram(ctx, "client", argv, env, h.clientPlace(w), limit)
	if err != nil {
		// The server's own words are often the reason; its failure to stop is part of the same trouble.
		return reading, fmt.Errorf("%s, %s: %w", s.Name, w.Name, errors.Join(err, server.Stop()))
	}
	if reading, err = ParseReading(line); err == nil {
		reading.RSSBytes, reading.PeakRSSBytes, err = server.memory()
	}
	if err := errors.Join(err, server.Stop()); err != nil {
		return reading, fmt.Errorf("%s, %s: %w", s.Name, w.Name, err)
	}
	reading.Mallocs, reading.HasMallocs = server.Mallocs, server.HasMallocs
	reading.Kicks, reading.Looks, reading.HasCalls, reading.Path = server.kicks, server.looks, server.hasCalls, server.path
	return reading, nil
}

// loop is the turn of a program that measures itself, on the servers' CPU.
func (h *runner) loop(ctx context.Context, s Peer, w Workload, p Pace) (Reading, error) {
	argv := append(s.ServerCommand(h.programs, w), "-seconds", strconv.FormatFloat(p.Seconds, 'f', 3, 64))
	limit := time.Duration(p.Seconds*float64(time.Second)) + 30*time.Second
	line, usage, err := RunProgram(ctx, s.Name, argv, goEnvironment(h.o.Procs), Place{CPU: h.serverCPU}, limit)
	if err != nil {
		return Reading{}, fmt.Errorf("%s: %w", w.Name, err)
	}
	reading, err := ParseReading(line)
	if err != nil {
		return reading, fmt.Errorf("%s, %s: %w", s.Name, w.Name, err)
	}
	reading.PeakRSSBytes = uint64(usage.Maxrss) << 10
	reading.RSSBytes = reading.PeakRSSBytes
	return reading, nil
}
