package gnet

import "time"

// tick calls OnTick at once and then after each delay it returns, on a goroutine of its own.
func (eng *engine) tick() {
	defer eng.ticking.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-eng.ending.Done():
			return
		case <-timer.C:
		}
		delay, action := eng.handler.OnTick()
		if action == Shutdown {
			eng.tickerShutdown()
		}
		timer.Reset(delay)
	}
}

// tickerShutdown ends the engine after what waits on the first loop was done, such as asynchronous writes.
func (eng *engine) tickerShutdown() {
	el := eng.loops[0]
	err := el.tasks.push(task{kind: taskRun, run: func() { _ = el.act(nil, Shutdown) }})
	if err != nil {
		eng.shutdown(nil)
	}
}
