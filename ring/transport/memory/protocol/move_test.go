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
