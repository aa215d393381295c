package stream

import (
	"encoding/binary"

	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// fetchFrom is how many connections there are before their records are fetched ahead: fewer are in a cache.
const fetchFrom = 4096

// fetching is the memory of a fetch.
type fetching struct {
	hashes [ip.MaxBurst]uint32 // of the segments of a burst
	ids    [ip.MaxBurst]tcp.ID
	sum    uint32 // of no meaning: see ring.SocketRef.Fetch
}

// fetch reads what the segments of a burst will need, step by step for all of them, so that the processor waits for the memory of all together:
// the places in the flow table, the connections' records of the table, those of the transport, the sockets.
func (t *Transport) fetch(b *ip.Burst) {
	hashes, ids := t.fetching.hashes[:0], t.fetching.ids[:0]
	for n := range b.Packets {
		p := &b.Packets[n]
		if p.Protocol != wire.ProtocolTCP {
			continue
		}
		if h := p.Payload(); len(h) >= wire.TCPLen {
			hashes = append(hashes, t.table.FetchFlow(tcp.Endpoint{Addr: p.Flow.Target, Port: binary.BigEndian.Uint16(h[2:])},
				tcp.Endpoint{Addr: p.Flow.Source, Port: binary.BigEndian.Uint16(h)}))
		}
	}
	for _, h := range hashes {
		if id := t.table.FetchConn(h); id != tcp.NoID {
			ids = append(ids, id)
		}
	}
	sum := uint32(0)
	for _, id := range ids {
		sum += uint32(t.record(id).flags)
	}
	for _, id := range ids {
		sum += t.record(id).socket.Fetch()
	}
	t.fetching.sum = sum
}
