package ringtest

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/ring"
)

// The methods that any goroutine may call, with the reason why it may. All others answer ErrOwner to a goroutine that is not the owner; those
// without an error result answer the zero value. Both are counted in RingStats.Misuses.
var (
	socketForAll = map[string]string{
		"ID":         "set when the socket is made",
		"Unix":       "set when the socket is made",
		"Family":     "set when the socket is made",
		"LocalAddr":  "published at each change",
		"RemoteAddr": "published at each change",
		"Ring":       "set once; Post and Wake of the ring are for any goroutine",
		"Check":      "the question itself",
	}
	ringForAll = map[string]string{
		"FD":    "set when the ring is made",
		"Kind":  "set when the ring is made",
		"Pool":  "set when the ring is made",
		"Post":  "made for it",
		"Wake":  "made for it",
		"Check": "the question itself",

		"IsPolled": "one load",
	}
	setForAll = map[string]string{
		"Check":          "the question itself",
		"Pool":           "set when the set is made",
		"Rings":          "a list that is replaced, not changed",
		"WakeIfSleeping": "the pool's return callback",
	}
)

// The functions of package ring for drivers, transports and pollers that check their caller as the methods do. HandleOf, ConfigOf and
// RefOf are for any goroutine.
var (
	socketFunctions = map[string]any{
		"TransportOf": ring.TransportOf, "SetTransport": ring.SetTransport, "TakeTransmission": ring.TakeTransmission,
		"ReturnTransmission": ring.ReturnTransmission,
		"TransmissionsTaken": ring.TransmissionsTaken, "QueueCopy": ring.QueueCopy, "SendQueueOf": ring.SendQueueOf,
		"AccountOf": ring.AccountOf,
	}
	ringFunctions = map[string]any{
		"PollBehind": ring.PollBehind, "IdleAndFailing": ring.IdleAndFailing, "IsIdle": ring.IsIdle, "IsStarving": ring.IsStarving,
	}
)

// functionsOf are the functions of package ring that take the subject first.
func functionsOf(subject any) map[string]any {
	switch subject.(type) {
	case *ring.Socket:
		return socketFunctions
	case *ring.Ring:
		return ringFunctions
	}
	return nil
}

// CallElsewhere calls every exported method of subject with zero arguments and empty functions, on the calling goroutine, which must not be
// the owner's. It lists what is not as it must be, and reports how many calls were refused. A method that is neither refused nor in forAll
// is wrong, so that no new one is forgotten.
func CallElsewhere(subject any, forAll map[string]string) (wrong []string, refused uint64) {
	v := reflect.ValueOf(subject)
	unknown := maps.Clone(forAll)
	for i := range v.NumMethod() {
		m := v.Type().Method(i)
		_, free := forAll[m.Name]
		delete(unknown, m.Name)
		out, err := callZero(v.Method(i), nil)
		switch {
		case err != nil:
		case free:
			continue
		default:
			refused++
			err = refusal(out)
		}
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("%T.%s: %v", subject, m.Name, err))
		}
	}
	for name, f := range functionsOf(subject) {
		out, err := callZero(reflect.ValueOf(f), []reflect.Value{v})
		if refused++; err == nil {
			err = refusal(out)
		}
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("ring.%s: %v", name, err))
		}
	}
	for name := range unknown {
		wrong = append(wrong, fmt.Sprintf("%T has no method %s", subject, name))
	}
	return wrong, refused
}

// callZero calls f with the arguments in, then zero values.
func callZero(f reflect.Value, in []reflect.Value) (out []reflect.Value, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panics: %v", v)
		}
	}()
	for i := len(in); i < f.Type().NumIn(); i++ {
		if f.Type().IsVariadic() && i == f.Type().NumIn()-1 {
			break
		}
		t := f.Type().In(i)
		if t.Kind() != reflect.Func {
			in = append(in, reflect.Zero(t))
			continue
		}
		in = append(in, reflect.MakeFunc(t, func([]reflect.Value) (out []reflect.Value) {
			for i := range t.NumOut() {
				out = append(out, reflect.Zero(t.Out(i)))
			}
			return out
		}))
	}
	return f.Call(in), nil
}

// refusal returns an error if the results of a call that must be refused are not an error or zero values.
func refusal(out []reflect.Value) error {
	if len(out) == 0 {
		return nil // only the counter shows it
	}
	last := out[len(out)-1]
	if last.Type() == reflect.TypeFor[error]() {
		if err, _ := last.Interface().(error); !errors.Is(err, ring.ErrOwner) {
			return fmt.Errorf("answers %v, want ErrOwner", last)
		}
		out = out[:len(out)-1]
	}
	for _, o := range out {
		if o.Kind() == reflect.Pointer && !o.IsNil() {
			o = o.Elem() // of something empty
		}
		if !o.IsZero() {
			return fmt.Errorf("answers %v, want the zero value", o)
		}
	}
	return nil
}

// misuses is RingStats.Misuses.
func misuses(r *ring.Ring) uint64 {
	f := reflect.ValueOf(r.Stats()).FieldByName("Misuses")
	if !f.IsValid() {
		return 0
	}
	return f.Uint()
}

// methodsKnowTheirCaller calls everything from another goroutine, while the owner polls, receives and sets options.
func methodsKnowTheirCaller(t *testing.T, b Backend) {
	states := []struct {
		name   string
		stream bool
		make   func(*world) *ring.Socket
	}{
		{"datagram", false, func(w *world) *ring.Socket { return w.udp(w.local) }},
		{"datagram without a ring", false, func(w *world) *ring.Socket { return w.socket(ring.KindDatagram, w.local) }},
		{"closed datagram", false, func(w *world) *ring.Socket {
			s := w.udp(w.local)
			w.closeAndWait(s)
			return s
		}},
		{"closed datagram that had no ring", false, func(w *world) *ring.Socket {
			s := w.socket(ring.KindDatagram, w.local)
			w.NoError(s.Close())
			return s
		}},
		{"listener", true, func(w *world) *ring.Socket { return w.listen() }},
		{"stream", true, func(w *world) *ring.Socket {
			s, _ := w.pair()
			return s
		}},
		{"stream without a ring", true, func(w *world) *ring.Socket { return w.socket(ring.KindStream, w.local) }},
		{"closed stream", true, func(w *world) *ring.Socket {
			s, _ := w.pair()
			w.closeAndWait(s)
			return s
		}},
	}
	for _, state := range states {
		if state.stream && b.Datagrams || !state.stream && b.Streams {
			continue
		}
		t.Run(state.name, func(t *testing.T) {
			w := newWorld(t, b)
			busy, peer := w.receiver()
			w.poll()
			s := state.make(w)
			w.calledElsewhere(busy, peer, s, s, socketForAll)
			w.NotZero(w.polls(), "the ring is as it was")
		})
	}
	t.Run("sockets that get their ring meanwhile", func(t *testing.T) {
		w := newWorld(t, b)
		w.receiver()
		w.poll()
		if !b.Streams {
			w.getTheirRing(ring.KindDatagram, func(s *ring.Socket) error { return s.Bind(w.local) })
		}
		if b.Datagrams {
			return
		}
		w.getTheirRing(ring.KindStream, func(s *ring.Socket) error { return errors.Join(s.Bind(w.local), s.Listen(0)) })
	})
	t.Run("ring", func(t *testing.T) {
		w := newWorld(t, b)
		busy, peer := w.receiver()
		w.poll()
		w.calledElsewhere(busy, peer, busy, busy.Ring(), ringForAll)
	})
	t.Run("set", func(t *testing.T) {
		w := newWorld(t, b)
		busy, peer := w.receiver()
		w.poll()
		w.calledElsewhere(busy, peer, busy, w.set, setForAll)
	})
}

// getTheirRing opens sockets while another goroutine calls all their methods.
func (w *world) getTheirRing(kind ring.SocketKind, open func(*ring.Socket) error) {
	w.t.Helper()
	for range 8 {
		s := w.socket(kind, w.local)
		ready, done := make(chan struct{}), make(chan []string)
		go func() {
			close(ready)
			wrong, _ := CallElsewhere(s, socketForAll)
			done <- wrong
		}()
		<-ready
		err := open(s)
		w.Empty(<-done)
		w.NoError(err)
		w.closeAndWait(s)
	}
}

func (w *world) polls() uint64 { return w.set.Rings()[0].Stats().Polls }

// calledElsewhere has another goroutine call the methods of subject. Meanwhile the owner polls, receives on busy, and sets options on s.
func (w *world) calledElsewhere(busy *ring.Socket, peer net.Conn, s *ring.Socket, subject any, forAll map[string]string) {
	w.t.Helper()
	type result struct {
		wrong   []string
		refused uint64
	}
	before := misuses(busy.Ring())
	done := make(chan result, 1)
	ready := make(chan struct{})
	go func() {
		close(ready)
		wrong, refused := CallElsewhere(subject, forAll)
		done <- result{wrong, refused}
	}()
	<-ready
	var r *result
	for turn := 0; r == nil || turn < 16; turn++ {
		select {
		case x := <-done:
			r = &x
		default:
		}
		w.write(peer, []byte{byte(turn)})
		w.release(w.event(busy, ring.EventPacket, nil))
		_ = s.SetTTL(1 + turn%255)
		_ = s.SetReceiveBuffer(16384 + turn)
		_ = s.SetReadDeadline(time.Now().Add(time.Hour))
		s.SetUserData(uint64(turn))
		if turn%64 == 0 && s == busy && !w.backend.Streams {
			w.NoError(s.JoinGroup(group(9), w.lo, netip.Addr{}))
			w.NoError(s.LeaveGroup(group(9), w.lo, netip.Addr{}))
		}
	}
	slices.Sort(r.wrong)
	require.Empty(w.t, strings.Join(r.wrong, "\n"))
	w.NotZero(r.refused)
	w.GreaterOrEqual(misuses(busy.Ring())-before, r.refused, "each is counted")
}
