package tcp

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// A directory holds what a map of flows would, whatever is entered, exported and removed.
func TestDirectoryIsAMap(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	d := NewDirectory([2]uint64{r.Uint64(), r.Uint64()})
	at := func() (local, remote Endpoint) {
		return Endpoint{wire.Addr{10, 0, 0, byte(r.IntN(2))}, uint16(80 + r.IntN(2))}, Endpoint{wire.Addr{10, 0, 1, byte(r.IntN(8))}, uint16(r.IntN(400))}
	}
	type flow struct{ local, remote Endpoint }
	model := map[flow]int{}
	for range 200_000 {
		local, remote := at()
		f, table := flow{local, remote}, 1+r.IntN(3)
		was := model[f]
		switch r.IntN(4) {
		case 0, 1:
			ok := was == 0 || was == table || was == InTransit
			require.Equal(t, ok, d.Enter(local, remote, table))
			if ok {
				model[f] = table
			}
		case 2:
			if d.Remove(local, remote, table); was == table {
				delete(model, f)
			}
		case 3:
			if d.Export(local, remote, table); was == table {
				model[f] = InTransit
			}
		}
		require.Equal(t, model[f], d.Find(local, remote))
	}
	require.Equal(t, len(model), d.Len())
	for f, table := range model {
		require.Equal(t, table, d.Find(f.local, f.remote))
	}
	d.RemoveTable(2)
	for f, table := range model {
		if table == 2 {
			table = 0
		}
		require.Equal(t, table, d.Find(f.local, f.remote))
	}
}

// Where several tables listen each gets its share of the flows, an address goes before none, and a table that stops moves nothing but its share.
func TestDirectoryListeners(t *testing.T) {
	d := NewDirectory([2]uint64{1, 2})
	any, one := Endpoint{Port: 80}, Endpoint{wire.Addr{10, 0, 0, 1}, 80}
	peer := func(i int) Endpoint { return Endpoint{wire.Addr{10, 0, 1, byte(i >> 8)}, uint16(i)} }
	require.Zero(t, d.Find(one, peer(1)))
	for table := 1; table <= 3; table++ {
		d.Listen(any, table)
	}
	before, count := [3000]int{}, [4]int{}
	for i := range before {
		before[i] = d.Find(one, peer(i))
		count[before[i]]++
	}
	require.Zero(t, count[0])
	for _, n := range count[1:] {
		require.InDelta(t, len(before)/3, n, float64(len(before)/10))
	}
	d.CloseListener(any, 2)
	for i, was := range before {
		if now := d.Find(one, peer(i)); was != 2 {
			require.Equal(t, was, now)
		} else {
			require.Contains(t, []int{1, 3}, now)
		}
	}
	d.Listen(one, 7)
	require.Equal(t, 7, d.Find(one, peer(1)))
	d.RemoveTable(1)
	d.RemoveTable(7)
	require.Equal(t, 3, d.Find(one, peer(1)))
	d.RemoveTable(3)
	require.Zero(t, d.Find(one, peer(1)))
}

// Readers without a lock see a flow's table, or none while it is out, and never another flow's.
func TestDirectoryReaders(t *testing.T) {
	d := NewDirectory([2]uint64{3, 4})
	local := Endpoint{wire.Addr{10, 0, 0, 1}, 80}
	remote := func(i int) Endpoint { return Endpoint{wire.Addr{10, 0, 1, 1}, uint16(i + 1)} }
	const flows, rounds = 512, 200
	var stop, readers sync.WaitGroup
	done := make(chan struct{})
	readers.Add(2)
	for range 2 {
		go func() {
			defer readers.Done()
			for {
				for i := range flows {
					if n := d.Find(local, remote(i)); n != 0 && n != InTransit && n != 1+i%5 {
						t.Errorf("flow %d is said to be table %d's", i, n)
						return
					}
				}
				select {
				case <-done:
					return
				default:
				}
			}
		}()
	}
	stop.Add(2)
	for half := range 2 {
		go func() {
			defer stop.Done()
			for range rounds {
				for i := half; i < flows; i += 2 {
					d.Enter(local, remote(i), 1+i%5)
				}
				for i := half; i < flows; i += 2 {
					d.Export(local, remote(i), 1+i%5)
					d.Enter(local, remote(i), 1+i%5)
					d.Remove(local, remote(i), 1+i%5)
				}
			}
		}()
	}
	stop.Wait()
	close(done)
	readers.Wait()
	require.Zero(t, d.Len())
}

func BenchmarkDirectoryFind(b *testing.B) {
	d := NewDirectory([2]uint64{3, 4})
	local := Endpoint{wire.Addr{10, 0, 0, 1}, 80}
	remote := func(i int) Endpoint { return Endpoint{wire.Addr{10, 0, byte(i >> 16), 1}, uint16(i)} }
	for i := range 1000 {
		d.Enter(local, remote(i), 1)
	}
	n := 0
	for i := range b.N {
		n += d.Find(local, remote(i%1000))
	}
	require.Equal(b, b.N, n)
}

// hosts is a client, and a host with two tables on one directory. Segments go where the directory says; those of a flow in transit wait.
type hosts struct {
	*require.Assertions
	now     clock.Time
	d       *Directory
	client  *Table
	tables  [2]*Table
	waiting []Segment
}

var clientAt, hostAt = Endpoint{wire.Addr{10, 0, 0, 1}, 40000}, Endpoint{wire.Addr{10, 0, 0, 2}, 80}

func newHosts(t *testing.T) *hosts {
	r := rand.New(rand.NewPCG(1, 2))
	h := &hosts{Assertions: require.New(t), now: clock.Time(1000 * clock.Second), d: NewDirectory([2]uint64{5, 6})}
	var err error
	h.client, err = New(Config{Random: r.Uint64}, h.now)
	h.NoError(err)
	for i := range h.tables {
		h.tables[i], err = New(Config{Random: r.Uint64, Directory: h.d, Number: i + 1}, h.now)
		h.NoError(err)
	}
	_, err = h.tables[0].Listen(ListenConfig{Local: hostAt, Backlog: 4, Settings: DefaultSettings()})
	h.NoError(err)
	return h
}

// input gives the host a segment.
func (h *hosts) input(s Segment) {
	n := h.d.Find(s.Local, s.Remote)
	if n == InTransit {
		h.waiting = append(h.waiting, s)
		return
	}
	h.Contains([]int{1, 2}, n)
	if h.tables[n-1].GiveWay(h.now, &s) {
		n = h.d.Find(s.Local, s.Remote)
	}
	h.tables[n-1].Input(h.now, &s)
}

// settle carries segments until none is left. Its results are the events of the client and of the host's tables.
func (h *hosts) settle() (events [3][]Event) {
	for again := true; again; {
		again = false
		for i, t := range []*Table{h.client, h.tables[0], h.tables[1]} {
			events[i] = append(events[i], t.Events()...)
			for s := (Segment{}); t.Output(h.now, &s); again = true {
				s.Local, s.Remote = s.Remote, s.Local
				if i == 0 {
					h.input(s)
				} else {
					h.client.Input(h.now, &s)
				}
			}
		}
	}
	return events
}

func (h *hosts) connect() (client, child ID) {
	client, err := h.client.Connect(h.now, Dial{Local: clientAt, Remote: hostAt, Settings: DefaultSettings()})
	h.NoError(err)
	for _, e := range h.settle()[1] {
		if e.Kind == EventAccepted {
			return client, e.Conn
		}
	}
	h.Fail("no connection")
	return 0, 0
}

func kinds(list []Event) (k []EventKind) {
	for _, e := range list {
		k = append(k, e.Kind)
	}
	return k
}

// A child moves to another table before anything was sent on it: what the peer sends before, meanwhile and after arrives, and so does the end.
func TestChildMovesBetweenTables(t *testing.T) {
	for _, fin := range []string{"before", "meanwhile", "after"} {
		t.Run(fin, func(t *testing.T) {
			h := newHosts(t)
			client, child := h.connect()
			send := func(n int) { h.NoError(h.client.Send(h.now, client, Payload{1, 0, uint32(n)}, false)) }
			end := func(when string) {
				if fin == when {
					h.NoError(h.client.CloseWrite(h.now, client))
				}
			}
			send(100)
			end("before")
			got := kinds(h.settle()[1])
			x, err := h.tables[0].ExportChild(h.now, child)
			h.NoError(err)
			h.False(x.Failed())
			h.Equal([]EventKind{EventGone}, kinds(h.tables[0].Events()))
			h.Zero(h.tables[0].Len())
			if fin != "before" {
				send(10)
			}
			end("meanwhile")
			h.settle()
			h.Equal(InTransit, h.d.Find(hostAt, clientAt))
			id, err := h.tables[1].ImportChild(h.now, &x, 9)
			h.NoError(err)
			for _, s := range h.waiting {
				h.input(s)
			}
			h.waiting = nil
			if fin == "after" {
				send(1)
			}
			end("after")
			for _, e := range h.settle()[2] {
				h.Equal(uint64(9), e.User)
				got = append(got, e.Kind)
			}
			h.Equal(EventEnd, got[len(got)-1])
			h.tables[1].Credit(h.now, id, 100)
			h.NoError(h.tables[1].Send(h.now, id, Payload{2, 0, 5000}, false))
			events := h.settle()
			h.Contains(kinds(events[0]), EventData)
			h.Contains(kinds(events[2]), EventAcked)
			h.tables[1].Close(h.now, id)
			h.client.Close(h.now, client)
			h.settle()
			h.Zero(h.tables[1].Len())
			h.Zero(h.d.Len(), "the client closed first, and is the one in TIME-WAIT")
			h.Zero(h.client.Stats().Retransmitted)
		})
	}
}

// What has sent, or is closed, stays where it is; what has failed moves with its failure.
func TestWhichChildrenMove(t *testing.T) {
	h := newHosts(t)
	client, child := h.connect()
	h.NoError(h.tables[0].Send(h.now, child, Payload{2, 0, 5}, false))
	_, err := h.tables[0].ExportChild(h.now, child)
	h.ErrorIs(err, ErrState)
	h.tables[0].Abort(h.now, child)
	h.settle()
	h.client.Close(h.now, client)
	client, child = h.connect()
	h.client.Abort(h.now, client)
	h.Contains(kinds(h.settle()[1]), EventFailed)
	x, err := h.tables[0].ExportChild(h.now, child)
	h.NoError(err)
	h.True(x.Failed())
	_, err = h.tables[0].ExportChild(h.now, child)
	h.ErrorIs(err, ErrNoConn)
	id, err := h.tables[1].ImportChild(h.now, &x, 1)
	h.NoError(err)
	h.tables[1].Close(h.now, id)
	h.Equal([]EventKind{EventGone}, kinds(h.tables[1].Events()))
	h.Zero(h.d.Len())
}

// Two tables do not use the same addresses, and a connection in TIME-WAIT on a table without the listener gives way to a new one.
func TestTablesShareAddresses(t *testing.T) {
	h := newHosts(t)
	d := Dial{Local: Endpoint{hostAt.Addr, 3000}, Remote: Endpoint{clientAt.Addr, 99}, Settings: DefaultSettings()}
	out, err := h.tables[0].Connect(h.now, d)
	h.NoError(err)
	_, err = h.tables[1].Connect(h.now, d)
	h.ErrorIs(err, ErrInUse)
	h.settle()
	h.tables[0].Close(h.now, out)

	client, child := h.connect()
	x, err := h.tables[0].ExportChild(h.now, child)
	h.NoError(err)
	id, err := h.tables[1].ImportChild(h.now, &x, 1)
	h.NoError(err)
	h.tables[1].Close(h.now, id)
	h.settle()
	h.client.Close(h.now, client)
	h.settle()
	h.Equal(1, h.tables[1].TimeWaits())
	h.now = h.now.Add(2 * clock.Second)
	h.connect()
	h.Zero(h.tables[1].TimeWaits())
	h.Equal(1, h.tables[0].Len())
}
