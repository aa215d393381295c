package gnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2/pkg/logging"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/reactor"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Engine is a running server, as OnBoot gets it. It is a value; the zero Engine answers ErrEmptyEngine. Its methods may
// be called from any goroutine.
type Engine struct{ eng *engine }

// Validate reports whether the engine runs: nil, ErrEmptyEngine or ErrEngineInShutdown.
func (e Engine) Validate() error {
	switch {
	case e.eng == nil || len(e.eng.listeners) == 0:
		return ErrEmptyEngine
	case e.eng.inShutdown():
		return ErrEngineInShutdown
	}
	return nil
}

// CountConnections is the number of open connections; -1 for an engine that does not run.
func (e Engine) CountConnections() (count int) {
	if e.Validate() != nil {
		return -1
	}
	for _, el := range e.eng.loops {
		count += int(el.count.Load())
	}
	return count
}

// Register puts a connection of NewNetConnContext, or one to the address of NewNetAddrContext, on the loop that the
// balancing policy chooses. In OnBoot it is ErrEmptyEngine; afterwards, unlike gnet's, it may be called at any time with
// every policy.
func (e Engine) Register(ctx context.Context) (<-chan RegisteredResult, error) {
	if err := e.Validate(); err != nil {
		return nil, err
	}
	if !e.eng.started.Load() {
		return nil, ErrEmptyEngine // OnBoot: there are no loops yet
	}
	if c, ok := FromNetConnContext(ctx); ok {
		return e.eng.balance(c.RemoteAddr()).Enroll(ctx, c)
	}
	if a, ok := FromNetAddrContext(ctx); ok {
		return e.eng.balance(a).Register(ctx, a)
	}
	return nil, ErrInvalidNetworkAddress
}

// Dup is a copy of the listener's descriptor, the caller's to close. With several listeners it is ErrUnsupportedOp: see
// DupListener.
func (e Engine) Dup() (int, error) {
	if err := e.Validate(); err != nil {
		return -1, err
	}
	if len(e.eng.listeners) > 1 {
		return -1, ErrUnsupportedOp
	}
	return e.eng.listeners[0].dup()
}

// DupListener is Dup for the listener of an address given to Rotate.
func (e Engine) DupListener(network, address string) (int, error) {
	if err := e.Validate(); err != nil {
		return -1, err
	}
	for _, a := range e.eng.listeners {
		if a.address == address && (a.endpoint.network == network || a.network == network) {
			return a.dup()
		}
	}
	return -1, ErrInvalidNetworkAddress
}

// Addrs is the addresses the engine is bound to, in the order in which they were given: with port 0 the one that the
// kernel chose.
func (e Engine) Addrs() (addrs []net.Addr) {
	if e.Validate() != nil {
		return nil
	}
	for _, a := range e.eng.listeners {
		addrs = append(addrs, a.local)
	}
	return addrs
}

// Stop ends the engine: it closes every connection, calls OnClose for each, and makes Run return. It waits for that until ctx is done. A
// handler, OnBoot, OnTick and OnShutdown among them, cannot wait for its own end: called by one Stop only begins the end (exact gnet waits
// nevertheless).
func (e Engine) Stop(ctx context.Context) error {
	if err := e.Validate(); err != nil {
		return err
	}
	return e.eng.stop(ctx)
}

// engine is the loops and what they share.
type engine struct {
	opts       *Options
	lb         LoadBalancing
	handler    EventHandler
	log        logging.Logger
	background context.Context
	engine     *xtreme.Engine
	loops      []*eventloop
	ingress    *eventloop   // accepts what a policy distributes among several loops; nil: nothing is
	all        []*eventloop // loops and ingress: what is run, ended and waited for
	listeners  []*acceptor  // one for each address: the first loop's, or that of ingress

	turn     atomic.Uint64 // of RoundRobin
	started  atomic.Bool
	accepted atomic.Int64 // connections that count against MaxConnections
	refused  atomic.Int64 // those that were too many

	ending  context.Context // done once the end has begun
	end     context.CancelFunc
	ended   chan struct{} // closed when all is over
	running sync.WaitGroup
	ticking sync.WaitGroup
	ticker  atomic.Uintptr // the goroutine of OnTick while it runs
	calling atomic.Uintptr // the one that calls OnBoot or OnShutdown, meanwhile
	mu      sync.Mutex
	failure error // of loops and OnTick

	failed func() // of a client: winds it, where Run does that for a server; on a goroutine of its own, after a failure
}

// newEngine makes the engine of a server or client from its options; no loop exists yet.
func newEngine(handler EventHandler, o *Options) (*engine, error) {
	if handler == nil {
		return nil, badOption("handler", nil)
	}
	if err := o.complete(); err != nil {
		return nil, err
	}
	if o.NumEventLoop > mostLoops {
		o.Logger.Warnf("option NumEventLoop %d: there will be %d loops", o.NumEventLoop, mostLoops)
	}
	eng := &engine{opts: o, lb: o.LB, handler: handler, log: o.Logger, background: context.Background(),
		ended: make(chan struct{})}
	eng.ending, eng.end = context.WithCancel(eng.background)
	var err error
	if eng.engine, err = xtreme.New(o.settings()); err != nil {
		return nil, fmt.Errorf("gnet: %w", err)
	}
	return eng, nil
}

// numLoops is how many loops the options ask for.
func (eng *engine) numLoops() int {
	n := 1
	if eng.opts.Multicore {
		n = runtime.NumCPU()
	}
	if eng.opts.NumEventLoop > 0 {
		n = eng.opts.NumEventLoop
	}
	return min(n, mostLoops)
}

// makeLoops makes the loops; nothing runs yet.
func (eng *engine) makeLoops() error {
	for i := range eng.numLoops() {
		c := xtreme.PollerConfig{MemoryOnDemand: true}
		if n := eng.numLoops(); n > 1 && eng.hasOwnTCP() {
			c.QueueShare = xtreme.QueueShare{Index: i, Of: n}
		}
		el, err := eng.newLoop(i, c)
		if err != nil {
			return err
		}
		eng.loops = append(eng.loops, el)
		eng.all = append(eng.all, el)
	}
	return nil
}

// hasOwnTCP reports whether the settings ask for TCP by our own stack.
func (eng *engine) hasOwnTCP() bool {
	s := eng.engine.Settings()
	return s.Ring == conf.RingOffload && s.Offload.TCP
}

// openInterfaces has each loop open the interfaces of a TCP address, before connections come: each serves its share of the queues, and with our
// own TCP what comes in on a queue that nobody serves is lost. A loop that cannot is told in the log: its connections are the first loop's.
func (eng *engine) openInterfaces(e *endpoint) {
	if !eng.hasOwnTCP() || len(eng.loops) < 2 || e.udp() || e.unix() {
		return
	}
	for _, el := range eng.loops {
		if err := el.poller.OpenInterface(e.bind.Addr()); err != nil {
			eng.log.Infof("loop %d accepts no TCP over our own stack: %v", el.idx, err)
		}
	}
}

// makeIngress makes the loop that only accepts, as gnet's main reactor does. The handler never runs on it, so a slow handler does not delay
// accepting. It sleeps when there is nothing to do, takes no processor of its own, and has the fewest buffers possible, because it receives
// no data.
//
// With TCP of our own stack the first loop accepts: a loop beside the others would have none of the interface's queues, or take one from them.
func (eng *engine) makeIngress() (err error) {
	if eng.hasOwnTCP() {
		eng.ingress = eng.loops[0]
		return nil
	}
	least := xtreme.PollerConfig{Auxiliary: true, MemoryOnDemand: true, SmallBuffers: leastSmall, LargeBuffers: leastLarge}
	if eng.ingress, err = eng.newLoop(ingressIndex, least); err == nil {
		eng.all = append(eng.all, eng.ingress)
	}
	return err
}

const (
	ingressIndex = -1
	leastSmall   = 64 // see xtreme.PollerConfig
	leastLarge   = 8
)

// newLoop makes loop i, or with ingressIndex the loop that accepts: a poller with the configuration c and a reactor on it.
func (eng *engine) newLoop(i int, c xtreme.PollerConfig) (*eventloop, error) {
	name := fmt.Sprintf("gnet-%d", i)
	if i == ingressIndex {
		name = "gnet-acceptor"
	}
	poller, err := eng.engine.NewPoller(name, c)
	if err != nil {
		return nil, fmt.Errorf("gnet: loop %d: %w", i, err)
	}
	el := &eventloop{eng: eng, idx: i, poller: poller, pool: poller.Pool(), handler: eng.handler, exact: eng.opts.ExactGnet,
		done: make(chan struct{})}
	el.drainer, _ = eng.handler.(Drainer)
	el.expire = el.expired
	// Beyond what is kept for sending a seventh of the rest must be free: together a quarter of a class, if an eighth is kept.
	for c := range el.low {
		el.low[c] = el.pool.Reserve(buffers.Class(c)) + el.pool.ReceiveShare(buffers.Class(c))/7
	}
	el.adapts = el.offersBuffers() && eng.opts.ReadBufferCap > smallBuffer
	o := eng.opts
	config := reactor.Config{Rest: o.Rest, RxPoll: o.RxPoll, SelectPoll: o.SelectPoll,
		OnPanic: o.OnPanic, Grace: time.Second, Logger: slogTo(eng.log)}
	if i == ingressIndex {
		config.Rest, config.Unpinned = reactor.Wait, true
	}
	el.loop, err = reactor.New(poller, el, config)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("gnet: loop %d: %w", i, err), poller.Close())
	}
	el.tasks.loop, el.tasks.run = el.loop, el.runTasks
	return el, nil
}

// start starts the loops and the ticker.
func (eng *engine) start() {
	eng.started.Store(true)
	for _, el := range eng.all {
		eng.running.Add(1)
		go eng.runLoop(el)
	}
	if eng.opts.Ticker {
		eng.ticking.Add(1)
		go func() {
			eng.ticker.Store(sys.Goroutine())
			defer eng.ticker.Store(0)
			eng.tick()
		}()
	}
}

// runLoop is a loop's goroutine.
func (eng *engine) runLoop(el *eventloop) {
	defer eng.running.Done()
	defer close(el.done)
	el.self.Store(sys.Goroutine())
	defer el.self.Store(0)
	if eng.opts.LockOSThread {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	err := errGoexit
	defer func() { el.afterLoopEnded(err) }()
	err = el.loop.Run(eng.background)
}

// shutdown begins the end of the engine; err is why, nil for an orderly end. Any goroutine.
func (eng *engine) shutdown(err error) {
	if err != nil {
		eng.log.Errorf("engine is being shut down: %v", err)
	}
	eng.end()
}

// inShutdown reports whether the engine has ended.
func (eng *engine) inShutdown() bool {
	select {
	case <-eng.ended:
		return true
	default:
		return false
	}
}

// windDown ends everything once the end has begun: it closes the connections, calls OnShutdown (exact gnet: before the connections are
// closed), and ends listeners and loops.
func (eng *engine) windDown() {
	if eng.opts.ExactGnet {
		eng.shutdownHandler()
		eng.onLoops((*eventloop).closeAll)
	} else {
		eng.onLoops((*eventloop).closeAll)
		eng.ticking.Wait()
		eng.shutdownHandler()
	}
	eng.onLoops((*eventloop).closeListeners) // now, and not when the loops have wound down: who comes late is refused
	for _, el := range eng.all {
		el.loop.BeginShutdown()
	}
	eng.running.Wait()
	eng.ticking.Wait()
	if err := eng.engine.Close(); err != nil {
		eng.log.Errorf("%v", err)
	}
	close(eng.ended)
}

// boot calls OnBoot.
func (eng *engine) boot() Action {
	eng.calling.Store(sys.Goroutine())
	defer eng.calling.Store(0)
	return eng.handler.OnBoot(Engine{eng})
}

// shutdownHandler calls OnShutdown.
func (eng *engine) shutdownHandler() {
	eng.calling.Store(sys.Goroutine())
	defer eng.calling.Store(0)
	eng.handler.OnShutdown(Engine{eng})
}

// onLoop reports whether the caller is on one of the loops, which must not wait for itself. Any goroutine, after the loops were made.
func (eng *engine) onLoop() bool {
	for _, el := range eng.all {
		if el.onLoop() {
			return true
		}
	}
	return false
}

// inHandler reports whether the caller is the handler, for whose return the end waits. Any goroutine. The loops may not all exist before
// started is set.
func (eng *engine) inHandler() bool {
	g := sys.Goroutine()
	return g == eng.calling.Load() || g == eng.ticker.Load() || eng.started.Load() && eng.onLoop()
}

// onLoops runs f on every loop and waits until each has run it or has ended.
func (eng *engine) onLoops(f func(*eventloop)) {
	done := make([]chan struct{}, len(eng.all))
	for i, el := range eng.all {
		answer := make(chan struct{})
		done[i] = answer
		_ = el.tasks.push(task{kind: taskRun, run: func() { // refused by a loop that is ending: el.done comes
			el.depth = 0
			panics := true
			defer func() {
				if !panics || eng.opts.OnPanic != reactor.StopLoop { // else the loop ends, and OnClose is called for what it leaves
					close(answer)
				}
			}()
			f(el)
			panics = false
		}})
	}
	for i, el := range eng.all {
		select {
		case <-done[i]:
		case <-el.done:
		}
	}
}

// stop begins the end and waits for it.
func (eng *engine) stop(ctx context.Context) error {
	eng.shutdown(nil)
	if eng.opts.ExactGnet {
		return eng.stopExact(ctx)
	}
	if eng.inHandler() {
		return nil
	}
	select {
	case <-eng.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stopExact is stop as gnet does it: it asks every 500 ms whether the engine has ended.
func (eng *engine) stopExact(ctx context.Context) error {
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for !eng.inShutdown() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
	return nil
}
