package gnet

import (
	"hash/crc32"
	"net"
)

// balance chooses the loop for a new connection, by the balancing policy. Any goroutine.
func (eng *engine) balance(remote net.Addr) *eventloop {
	loops := eng.loops
	switch eng.lb {
	case LeastConnections:
		best := loops[0]
		least := best.assigned.Load()
		for _, el := range loops[1:] {
			if n := el.assigned.Load(); n < least {
				best, least = el, n
			}
		}
		return best
	case SourceAddrHash:
		var name string
		if remote != nil { // a closed net.Conn may have none
			name = remote.String()
		}
		return loops[crc32.ChecksumIEEE([]byte(name))%uint32(len(loops))]
	}
	return loops[(eng.turn.Add(1)-1)%uint64(len(loops))]
}
