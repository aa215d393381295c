package main

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

// Round is one turn of each server. Peer is empty when the row is judged against a limit.
type Round struct {
	Ours, Peer Reading
	Attempts   int
	Noisy      bool // still above mostHostLost after the last attempt; the quietest attempt was kept
}

func (r Round) hostLost() float64 { return max(r.Ours.disturbed(), r.Peer.disturbed()) }

// Outcome is all that is known about a case after measuring it: its rounds, or the reason why there are none.
type Outcome struct {
	Rounds []Round
	NotRun string   // a server or tool that this machine or build does not have
	Failed string   // something went wrong
	Faults []string // messages lost, duplicated …; numbers that cannot be
}

// harness owns the compiled programs and the CPUs of a run.
type harness struct {
	o          options
	programs   programs
	dir        string
	gcc        string
	serverCPU  int // -1: not bound
	clientCPU  int
	pinnedNote string
}

// newHarness compiles the C programs and chooses the CPUs.
func newHarness(o options) (h *harness, err error) {
	h = &harness{o: o, serverCPU: o.serverCPU, clientCPU: o.clientCPU}
	if err := h.chooseCPUs(); err != nil {
		return nil, err
	}
	if h.programs.self, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("path of this program: %w", err)
	}
	if h.dir, err = os.MkdirTemp("", "bench-"); err != nil {
		return nil, fmt.Errorf("folder for the C programs: %w", err)
	}
	h.programs.client, h.programs.cServer, h.gcc, err = compileC(h.dir)
	if err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

func (h *harness) close() { _ = os.RemoveAll(h.dir) }

func (h *harness) chooseCPUs() error {
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
func (h *harness) pace(w Workload) (p pace, rounds int) {
	p, rounds = pace{seconds: w.Seconds, warmup: 0.3, settle: 0.5}, w.Rounds
	if h.o.quick {
		p, rounds = pace{seconds: 0.2, warmup: 0.05, settle: 0.1}, 1
	}
	if h.o.seconds > 0 {
		p.seconds = h.o.seconds
	}
	if h.o.rounds > 0 {
		rounds = h.o.rounds
	}
	return p, rounds
}

// estimate is the time the cases need when no round is repeated.
func (h *harness) estimate(cases []Case) time.Duration {
	const startAndStop = 0.1
	var seconds float64
	for _, c := range cases {
		p, rounds := h.pace(c.Workload)
		turns := 2.0
		if c.Peer == Limit {
			turns = 1
		}
		// Opening a connection includes one exchange on it, some 80 µs in all.
		seconds += float64(rounds) * turns * (p.seconds + p.warmup + startAndStop + 80e-6*float64(c.Workload.Conns))
	}
	return time.Duration(seconds * float64(time.Second)).Round(time.Second)
}

// measure runs all rounds of a case. It stops at the first error: a server that failed once is not compared.
func (h *harness) measure(ctx context.Context, c Case) Outcome {
	var out Outcome
	ours, err := findServer(c.Ours)
	var peer Server
	if err == nil && c.Peer != Limit {
		peer, err = findServer(c.Peer)
	}
	if err == nil {
		err = ours.check(c.Workload)
	}
	if err == nil && c.Peer != Limit {
		err = peer.check(c.Workload)
	}
	if err != nil {
		out.NotRun = err.Error()
		return out
	}
	_, rounds := h.pace(c.Workload)
	for range rounds {
		round, err := h.quietRound(ctx, c, ours, peer)
		switch {
		case errors.Is(err, errRefused):
			out.NotRun = err.Error()
			return out
		case err != nil:
			out.Failed = err.Error()
			return out
		}
		out.Rounds = append(out.Rounds, round)
		for _, f := range round.Ours.faults(c.Workload) {
			out.Faults = append(out.Faults, c.Ours+": "+f)
		}
		if c.Peer != Limit {
			for _, f := range round.Peer.faults(c.Workload) {
				out.Faults = append(out.Faults, c.Peer+": "+f)
			}
		}
	}
	return out
}

// quietRound repeats a round in which the host took too much time, a bounded number of times, and keeps the quietest.
// A quick run repeats only a round that measured nothing at all, and gives it twice the time. A round in which messages
// were lost or duplicated is never repeated: that is not noise.
func (h *harness) quietRound(ctx context.Context, c Case, ours, peer Server) (Round, error) {
	p, _ := h.pace(c.Workload)
	var best Round
	for attempt := 1; ; attempt++ {
		r, err := h.round(ctx, c, ours, peer, p)
		if err != nil {
			return r, err
		}
		if attempt == 1 || r.broken(c) || r.better(best, c) {
			best = r
		}
		best.Attempts = attempt
		best.Noisy = best.hostLost() > mostHostLost
		again := best.empty(c) || (best.Noisy && !h.o.quick)
		if best.broken(c) || !again || attempt > h.o.retries {
			return best, nil
		}
		if best.empty(c) {
			p.seconds *= 2
		}
	}
}

func (h *harness) round(ctx context.Context, c Case, ours, peer Server, p pace) (r Round, err error) {
	if r.Ours, err = h.turn(ctx, ours, c.Workload, p); err != nil || c.Peer == Limit {
		return r, err
	}
	r.Peer, err = h.turn(ctx, peer, c.Workload, p)
	return r, err
}

// better says that r is worth more than another attempt: it measured something, or was disturbed less.
func (r Round) better(other Round, c Case) bool {
	if r.empty(c) != other.empty(c) {
		return other.empty(c)
	}
	return r.hostLost() < other.hostLost()
}

func (r Round) broken(c Case) bool {
	return len(r.Ours.broken(c.Workload)) > 0 || (c.Peer != Limit && len(r.Peer.broken(c.Workload)) > 0)
}

func (r Round) empty(c Case) bool {
	return len(r.Ours.empty(c.Workload)) > 0 || (c.Peer != Limit && len(r.Peer.empty(c.Workload)) > 0)
}

// turn is one server's part of a round: start it, let the client measure it, read its memory, stop it.
func (h *harness) turn(ctx context.Context, s Server, w Workload, p pace) (Reading, error) {
	var reading Reading
	server, err := startServer(s, s.command(h.programs, w), h.serverCPU, h.o.procs)
	if err != nil {
		return reading, err
	}
	argv := append([]string{h.programs.client}, w.clientArgs(p)...)
	argv = append(argv, "-port", strconv.Itoa(server.port), "-server-pid", strconv.Itoa(server.cmd.Process.Pid))
	if h.serverCPU >= 0 {
		argv = append(argv, "-server-cpu", strconv.Itoa(h.serverCPU))
	}
	limit := time.Duration((p.seconds+p.warmup+p.settle)*float64(time.Second)) + 45*time.Second
	line, err := runClient(ctx, argv, h.clientCPU, limit)
	if err != nil {
		// The server's own words are often the reason; its failure to stop is part of the same trouble.
		return reading, fmt.Errorf("%s, %s: %w", s.Name, w.Name, errors.Join(err, server.stop()))
	}
	if reading, err = parseReading(line); err == nil {
		reading.RSSBytes, reading.PeakRSSBytes, err = server.memory()
	}
	if err := errors.Join(err, server.stop()); err != nil {
		return reading, fmt.Errorf("%s, %s: %w", s.Name, w.Name, err)
	}
	return reading, nil
}
