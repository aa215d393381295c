package protocol

import (
	"testing"
	"time"
)

// A connection that moves to another table of its host goes on there, with what is outstanding and its deadlines.
func TestExportAndImport(t *testing.T) {
	w := newWorld(t, 30)
	client, server := w.connect()
	a := client.side
	w.lose = func(f *frame) bool { return true }
	client.send(pattern(5000))
	w.run(20 * time.Millisecond)
	w.lose = nil
	old := a.table
	a.table = New(old.config, a, w.now)
	id, err := a.table.Import(w.now, old.Export(client.id))
	w.NoError(err)
	w.Zero(old.Len())
	delete(a.streams, client.id)
	client.id = id
	a.streams[id] = client
	w.run(3 * time.Second)
	w.Equal(pattern(5000), server.got)
	w.Equal(5000, client.acked)
	_, err = a.table.Import(w.now, a.table.conns[id])
	w.ErrorIs(err, ErrInUse)
	a.table.Close(w.now, id, false)
	server.side.table.Close(w.now, server.id, false)
	w.run(5 * time.Second)
	w.empty()
}

// A connection that has ended and was not closed moves beside another one between the same two endpoints, in either order.
func TestImportOfAClosedConnection(t *testing.T) {
	for _, closedFirst := range []bool{false, true} {
		w := newWorld(t, 33)
		former, peer := w.connect()
		a := former.side
		local := a.table.Local(former.id)
		peer.side.table.Abort(w.now, peer.id)
		w.run(20 * time.Millisecond)
		w.Equal(Closed, former.state())
		id, err := a.table.Connect(w.now, local, w.server())
		w.NoError(err)
		client := a.meet(id)
		w.run(20 * time.Millisecond)
		server := w.take()

		old := a.table
		a.table = New(old.config, a, w.now)
		list := []*stream{client, former}
		if closedFirst {
			list = []*stream{former, client}
		}
		moved := map[ID]*stream{}
		for _, st := range list {
			id, err := a.table.Import(w.now, old.Export(st.id))
			w.NoError(err)
			st.id = id
			moved[id] = st
		}
		a.streams = moved
		client.send(pattern(3000))
		w.run(time.Second)
		w.Equal(pattern(3000), server.got)
		for _, st := range []*stream{client, former, server} {
			st.side.table.Close(w.now, st.id, false)
		}
		w.run(5 * time.Second)
		w.empty()
	}
}
