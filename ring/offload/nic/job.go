package nic

// Job is work that a ring's goroutine does not wait for: opening an interface and binding a socket wait for locks that all configuration
// of the kernel's network takes, closing an interface waits for receivers on every processor. Some milliseconds, hundreds under load.
//
//	owner     Start ··· polls on, by the shadow sockets ··· Finish
//	job         └─ work ────────────────────────────────────┘
//
// A [Background] says how work runs: on a goroutine of its own, or, on a simulated host, at a time of the simulation.
//
// The work uses its own variables, the table under its lock, and of the ring only what never changes. The owner runs finish, which applies the
// result.
type Job struct {
	ended    chan struct{}
	hasten   func() // of the Background
	finish   func()
	finished bool // finish has run; the owner's
}

// Background runs work that its caller does not wait for. hasten, unless nil, is called by a goroutine that waits for the end of the work: on a
// simulated host, whose time does not pass meanwhile, it runs the work.
type Background func(work func()) (hasten func())

// startGoroutine is the Background of this process: a goroutine for each job.
func startGoroutine(work func()) (hasten func()) {
	go work()
	return nil
}

// Start starts a job. When its work has ended, the ring is woken, and its next Poll calls Check.
func (a *Attachments) Start(work, finish func()) *Job {
	j := &Job{ended: make(chan struct{}), finish: finish}
	j.hasten = a.background(func() {
		work()
		close(j.ended)
		a.checkSoon.Store(true) // before the ring's sleep is looked for: a ring that goes to sleep looks in the other order
		a.wake()
	})
	return j
}

// HasEnded reports whether the work has ended, so that Finish does not wait. Any goroutine.
func (j *Job) HasEnded() bool {
	select {
	case <-j.ended:
		return true
	default:
		return false
	}
}

// Await waits until the work has ended. Not for Poll.
func (j *Job) Await() {
	if j.hasten != nil {
		j.hasten()
	}
	<-j.ended
}

// Finish applies the result of a job whose work has ended.
func (j *Job) Finish() {
	j.finished = true
	j.finish()
}

// finishJob finishes the attachment's job if its work has ended.
func (a *Attachments) finishJob(p *attachment) {
	if j := p.job; j != nil && j.HasEnded() {
		p.job = nil
		j.Finish()
	}
}

// await finishes the attachment's job, for a ring that is closed or an attachment that is given up. Not for Poll.
func (a *Attachments) await(p *attachment) {
	if p.job != nil {
		p.job.Await()
		a.finishJob(p)
	}
}
