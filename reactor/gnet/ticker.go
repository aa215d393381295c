package gnet

import (
	"runtime/debug"
	"time"

	"github.com/socketxtreme/socketxtreme/reactor"
)

// tickAfterPanic is the delay of a ticker whose first OnTick panicked, so that it has returned none.
const tickAfterPanic = time.Second

// tick calls OnTick at once and then after each delay it returns, on a goroutine of its own.
func (eng *engine) tick() {
	defer eng.ticking.Done()
	delay := tickAfterPanic
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-eng.ending.Done():
			return
		case <-timer.C:
		}
		next, action, panicked := eng.onTick()
		switch {
		case panicked == nil:
			delay = next
		case eng.opts.OnPanic == reactor.StopLoop:
			eng.fail(panicked)
			return
		default:
			eng.log.Errorf("panic contained, the next tick is in %v: %v", delay, panicked)
		}
		if action == Shutdown {
			eng.tickerShutdown()
		}
		timer.Reset(delay)
	}
}

// onTick is OnTick with its panic contained, but for exact gnet.
func (eng *engine) onTick() (delay time.Duration, action Action, panicked *reactor.PanicError) {
	if !eng.opts.ExactGnet {
		defer func() {
			if v := recover(); v != nil {
				panicked = &reactor.PanicError{Where: "OnTick", Value: v, Stack: debug.Stack()}
			}
		}()
	}
	delay, action = eng.handler.OnTick()
	return delay, action, nil
}

// tickerShutdown ends the engine when OnTick returned Shutdown, after the tasks that are queued on the first loop, such as asynchronous
// writes, have run.
func (eng *engine) tickerShutdown() {
	el := eng.loops[0]
	err := el.tasks.push(task{kind: taskRun, run: func() { _ = el.doAction(nil, Shutdown) }})
	if err != nil {
		eng.shutdown(nil)
	}
}
