package harness

import "strconv"

const (
	// floodWindows is how many windows the highest rate is measured in, and fewLost the part of its messages that a window may lose.
	floodWindows = 10
	fewLost      = 0.001
	// floodSearch is how much longer than the windows a flood takes, to find the rate and to try again, as a rule.
	floodSearch = 0.6
)

// mostLost is the part of its messages that a window of a flood may lose.
func (w Workload) mostLost() float64 {
	if w.Overload {
		return 1
	}
	return fewLost
}

// spoiled is how many windows of a flood may lose more.
func (w Workload) spoiled() int { return floodWindows / 5 }

// Pace is the length of one measurement, in seconds.
type Pace struct{ Seconds, Warmup, Settle float64 }

// Flags are those of the length, as all clients know them.
func (p Pace) Flags() []string {
	return []string{"-seconds", seconds(p.Seconds), "-warmup", seconds(p.Warmup)}
}

func seconds(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }

// ClientCommand is the load generator's command line for a peer under w, but for the peer's port and process.
func (s *Peer) ClientCommand(p Programs, w Workload, pace Pace) []string {
	switch {
	case !w.Veth:
		return append([]string{p.clientFor(w)}, w.clientArgs(pace)...)
	case w.Mode == Flood:
		argv := []string{p.C(sourceProgram), "-iface", ClientDevice, "-addr", ClientAddr, "-peer", ServerAddr, "-peer-mac", ServerMAC.String(),
			"-groups", strconv.Itoa(w.Groups), "-base", GroupBase, "-size", strconv.Itoa(w.Size), "-windows", strconv.Itoa(floodWindows),
			"-spoiled", strconv.Itoa(w.spoiled()), "-lost", strconv.FormatFloat(w.mostLost(), 'g', -1, 64)}
		window := pace.Seconds / floodWindows
		return append(argv, "-window-s", seconds(window), "-probe-s", seconds(max(window/5, min(window, 0.02))))
	case w.Both && s.Client != nil:
		return s.Client(p, w, pace)
	}
	argv := append([]string{p.C(clientProgram), "-addr", ServerAddr}, w.clientArgs(pace)...)
	argv = append(append(argv, w.WindowFlag()...), s.ClientFlags...)
	return argv
}

// clientFor returns the client program in C for a workload.
func (p Programs) clientFor(w Workload) string {
	if w.Mode == Pipeline {
		return p.C(pipelineProgram)
	}
	return p.C(clientProgram)
}

// clientArgs is the command line of a client in C but for the server's port and process id.
func (w Workload) clientArgs(p Pace) []string {
	if w.Mode == Pipeline {
		return append([]string{"-app", string(w.App), "-conns", strconv.Itoa(w.Conns), "-size", strconv.Itoa(w.Size), "-depth", strconv.Itoa(w.Depth)},
			p.Flags()...)
	}
	args := append([]string{"-proto", w.Proto, "-mode", string(w.Mode), "-conns", strconv.Itoa(w.Conns)}, p.Flags()...)
	args = append(args, "-settle", seconds(p.Settle))
	if w.Block {
		args = append(args, "-block")
	}
	if w.Beside > 0 {
		args = append(args, "-idle", strconv.Itoa(w.Beside))
	}
	if w.Mode == Gap {
		args = append(args, "-gap-ms", seconds(w.Gap.Seconds()*1e3))
	}
	return args
}

// WindowFlag is how many requests are outstanding on the flow.
func (w Workload) WindowFlag() []string {
	if w.Window > 1 {
		return []string{"-window", strconv.Itoa(w.Window)}
	}
	return nil
}
