package ring

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// A million idle connections take two cache lines each, at which the garbage collector does not look.
func TestSocketIsACompactRecord(t *testing.T) {
	require.Equal(t, uintptr(128), unsafe.Sizeof(Socket{}))
	var pointers func(x reflect.Type, at string) []string
	pointers = func(x reflect.Type, at string) (found []string) {
		switch x.Kind() {
		case reflect.Struct:
			for i := range x.NumField() {
				found = append(found, pointers(x.Field(i).Type, at+"."+x.Field(i).Name)...)
			}
		case reflect.Array:
			return pointers(x.Elem(), at)
		case reflect.Pointer, reflect.UnsafePointer, reflect.Map, reflect.Slice, reflect.String, reflect.Interface, reflect.Func, reflect.Chan:
			return []string{at}
		}
		return found
	}
	require.Empty(t, pointers(reflect.TypeFor[Socket](), "Socket"))
	require.Empty(t, pointers(reflect.TypeFor[slotBlock](), "slotBlock"))
	require.NotEmpty(t, pointers(reflect.TypeFor[activeState](), ""), "the test finds pointers")
}

// Nothing that an active state can hold is lost when its socket becomes idle: each field that is not zero keeps it.
func TestActiveStateIsKept(t *testing.T) {
	free := []string{
		"set",      // of sockets without a ring, which have another reason
		"latched",  // counts while the socket is in the ready list only
		"listener", // nil when the connection was announced
		"counts",   // kept beside the records
	}
	typ := reflect.TypeFor[activeState]()
	require.True(t, (&activeState{}).isDefault())
	for i := range typ.NumField() {
		name := typ.Field(i).Name
		if slices.Contains(free, name) {
			continue
		}
		for _, path := range leaves(typ.Field(i).Type, nil) {
			var a activeState
			v := reflect.ValueOf(&a).Elem().Field(i)
			for _, k := range path {
				v = v.Field(k)
			}
			fill(reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem())
			if name == "received" || name == "unseen" || name == "done" || name == "sending" || name == "linger" {
				continue // pairs of fields: seen below
			}
			require.False(t, a.isDefault(), "%s %v", name, path)
		}
	}
	for _, a := range []activeState{
		{received: queue{n: 1}}, {unseen: queue{n: 1}}, {done: queue{n: 1}}, {linger: lingerTime{set: true}},
		{sending: sendQueue{waiting: queue{n: 1}}}, {sending: sendQueue{inflight: 1}}, {sending: sendQueue{detaching: true}},
	} {
		require.False(t, a.isDefault(), "%+v", a)
	}
}

// leaves are the paths of the fields of a struct that have no fields.
func leaves(x reflect.Type, at []int) (all [][]int) {
	if x.Kind() != reflect.Struct {
		return [][]int{at}
	}
	for i := range x.NumField() {
		all = append(all, leaves(x.Field(i).Type, append(slices.Clone(at), i))...)
	}
	return all
}

// fill makes a value something else than zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		v.SetUint(1)
	case reflect.Array:
		fill(v.Index(v.Len() - 1))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	case reflect.Func:
		v.Set(reflect.MakeFunc(v.Type(), func([]reflect.Value) []reflect.Value { return nil }))
	case reflect.Interface:
		v.Set(reflect.ValueOf(ErrClosed))
	default:
		panic(v.Type().String())
	}
}

// Chunks grow with the number of sockets; a closed socket's record is not used again, and its chunk goes with the last one.
func TestSocketTable(t *testing.T) {
	x := socketTable{current: -1}
	seen := map[*Socket]bool{}
	open := []*Socket{}
	add := func() *Socket {
		s := x.add()
		require.False(t, seen[s], "used again")
		seen[s] = true
		require.Same(t, s, x.at(s.at))
		return s
	}
	for range 100_000 {
		open = append(open, add())
	}
	require.Less(t, len(x.chunks), 2000)
	require.Len(t, x.chunks[0].records, chunkMin)
	require.Greater(t, len(x.chunks[x.current].records), 200)
	chunks := len(x.chunks)
	kept := open[0]
	for _, s := range open[1:] {
		x.remove(s)
	}
	require.Equal(t, 1, x.open)
	require.Same(t, kept, x.at(kept.at))
	held := 0
	for _, c := range x.chunks {
		held += len(c.records)
	}
	require.LessOrEqual(t, held, chunkMin+chunkMax, "the chunks of closed sockets are gone")
	for range 10_000 {
		x.remove(add())
	}
	require.LessOrEqual(t, len(x.chunks), chunks, "places are used again")
	x.remove(kept)
	require.Zero(t, x.open)
}

// A slot that is used again has another generation.
func TestSlotTable(t *testing.T) {
	set := &Set{sockets: socketTable{current: -1}}
	set.number = sets.add(set)
	defer sets.close(set.number, closedSet)
	var x slotTable
	add := func() *Socket {
		s := set.sockets.add()
		s.maker = set.number
		x.add(s)
		return s
	}
	var all []*Socket
	for i := range 10_000 {
		s := add()
		require.Equal(t, uint32(i), s.handle.Slot)
		require.Same(t, s, x.find(s.handle.Slot, s.handle.Gen))
		all = append(all, s)
	}
	old := all[77]
	x.remove(old)
	require.Nil(t, x.find(77, old.handle.Gen))
	s := add()
	require.Equal(t, uint32(77), s.handle.Slot)
	require.Nil(t, x.find(77, old.handle.Gen), "stale")
	require.Same(t, s, x.find(77, s.handle.Gen))
	require.Nil(t, x.find(1<<31, 1))
	n := 0
	for s := range x.all {
		x.remove(s)
		n++
	}
	require.Equal(t, 10_000, n)
	require.Zero(t, x.open)
}

// Every address that a socket can have comes back as it was.
func TestEndpoints(t *testing.T) {
	var x endpoints
	local, remote := x.get()
	require.Equal(t, netip.AddrPort{}, local)
	require.Equal(t, netip.AddrPort{}, remote)
	all := []netip.AddrPort{{}, netip.AddrPortFrom(netip.Addr{}, 7)}
	for _, a := range []string{"0.0.0.0:0", "1.2.3.4:65535", "255.255.255.255:1", "[::]:0", "[::ffff:1.2.3.4]:5", "[2001:db8::1]:80", "[fe80::1%eth0]:9",
		"[fe80::1%eth1]:9", "[fe80::2%eth0]:9"} {
		all = append(all, netip.MustParseAddrPort(a))
	}
	for _, a := range all {
		for _, b := range all {
			x.set(a, b)
			local, remote = x.get()
			require.Equal(t, a, local)
			require.Equal(t, b, remote)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 100_000 {
			a := all[3+i%2*5]
			x.set(a, a)
		}
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		if a, b := x.get(); a != b {
			t.Fatal(a, b)
		}
	}
}

// Numbers beyond the first ones, and those of what was closed.
func TestRegistry(t *testing.T) {
	var x registry[int]
	stands := new(int)
	var all []*int
	for i := range 5000 {
		v := new(int)
		all = append(all, v)
		require.Equal(t, uint32(i+1), x.add(v))
	}
	require.Nil(t, x.at(0))
	for i, v := range all {
		require.Same(t, v, x.at(uint32(i+1)))
	}
	for _, n := range []uint32{1, 255, 256, 1279, 1280, 5000} {
		x.close(n, stands)
		require.Same(t, stands, x.at(n))
		require.Same(t, all[n-1], x.entry(n).was.Value(), "somebody else keeps it")
	}
}

// Totals go on beyond what the record has room for, also when the socket is idle in between.
func TestTotalsBeyondTheRecord(t *testing.T) {
	set := &Set{sockets: socketTable{current: -1}, actives: []*activeState{{}}}
	set.number = sets.add(set)
	defer sets.close(set.number, closedSet)
	s := set.sockets.add()
	s.maker = set.number
	const n = 3 << 30
	for range 5 {
		s.countReceived(&Ring{}, n, false)
		s.countSent(&Ring{}, 1<<31, n)
		if s.isActive() {
			s.deactivate()
		}
	}
	require.Equal(t, socketCounts{Packets: 5, Bytes: 5 * n, SentMessages: 5 << 31, SentBytes: 5 * n}, s.totalCounts())
	s.activate()
	require.Equal(t, socketCounts{Packets: 5, Bytes: 5 * n, SentMessages: 5 << 31, SentBytes: 5 * n}, s.totalCounts())
}

// Discard of a socket whose set is closed changes nothing: what stands for closed sets is everybody's.
func TestDiscardAfterTheSetIsClosed(t *testing.T) {
	set := &Set{sockets: socketTable{current: -1}, actives: []*activeState{{}}}
	set.number = sets.add(set)
	s := set.sockets.add()
	s.maker = set.number
	sets.close(set.number, closedSet)
	before := len(closedSet.actives)
	require.Error(t, s.Discard())
	require.Len(t, closedSet.actives, before)
}
