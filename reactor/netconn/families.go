package netconn

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/socketxtreme/socketxtreme/xtreme"
)

// fallbackDelay is package net's: RFC 6555 recommends 150 to 250 ms, RFC 8305 250 ms, and net.Dialer waits for 300 ms.
const fallbackDelay = 300 * time.Millisecond

// connectAny connects to one of a name's addresses. Those of the first one's family go first; when none of them has answered after
// Config.FallbackDelay, or all have failed, those of the other family are tried beside them, and the first connection is taken (RFC
// 6555). It is what net.Dialer does. If no address answers, the error is the first family's.
func (n *Network) connectAny(ctx context.Context, network string, all []netip.AddrPort, c xtreme.DialConfig) (net.Conn, error) {
	first, other := all, []netip.AddrPort(nil)
	if network == "tcp" && n.config.FallbackDelay >= 0 {
		first, other = byFamily(all)
	}
	if len(other) == 0 {
		return n.connectFirst(ctx, network, all, c)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the family that was slower gives up
	type result struct {
		conn    net.Conn
		err     error
		isFirst bool
	}
	results := make(chan result) // without room: who is late finds nobody
	over := make(chan struct{})
	defer close(over)
	try := func(addresses []netip.AddrPort, isFirst bool) {
		conn, err := n.connectFirst(ctx, network, addresses, c)
		select {
		case results <- result{conn, err, isFirst}:
		case <-over:
			if err == nil {
				_ = conn.Close()
			}
		}
	}
	const isFirst = true
	go try(first, isFirst)
	timer := time.NewTimer(n.config.FallbackDelay)
	defer timer.Stop()
	var firstErr error
	for trying := 1; trying > 0; {
		select {
		case <-timer.C:
			trying++
			go try(other, !isFirst)
		case r := <-results:
			trying--
			switch {
			case r.err == nil:
				return r.conn, nil
			case r.isFirst:
				firstErr = r.err
				if timer.Stop() { // the other family has not begun: it need not wait
					trying++
					go try(other, !isFirst)
				}
			}
		}
	}
	return nil, firstErr
}

// byFamily divides addresses into those of the first one's family and the others, in order.
func byFamily(all []netip.AddrPort) (first, other []netip.AddrPort) {
	for _, a := range all {
		if a.Addr().Is4() == all[0].Addr().Is4() {
			first = append(first, a)
		} else {
			other = append(other, a)
		}
	}
	return first, other
}
