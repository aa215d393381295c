package xtreme

import (
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
)

// AdoptConfig configures the socket that Adopt makes. It has the fields of ListenConfig and UDPConfig that say how a ring treats the socket.
// Options of the kernel's are not among them: the descriptor keeps those that it has, and Socket has a call for each. A field that is given
// for another kind of socket than the descriptor's is an error that names it.
type AdoptConfig struct {
	SocketConfig

	// LargeStream is for TCP and unix-domain streams and listeners; see ListenConfig.
	LargeStream bool
	// AcceptTo is for listeners; see ListenConfig.
	AcceptTo func(fd int, peer netip.AddrPort) (taken bool)

	// The remaining fields are for UDP sockets; see UDPConfig.

	LargestDatagram    int
	Timestamps         bool
	HardwareTimestamps *HardwareTimestamps
	TAIOffset          time.Duration
	TxTimestamps       bool
	PacketInfo         bool
}

// optionsFor converts the configuration for a socket of the kind that kernel.Inspect found. A field for another kind is an error.
func (c *AdoptConfig) optionsFor(f ring.Adopted) (*options, error) {
	stream := f.Kind == ring.KindStream || f.Kind == ring.KindListener
	for _, x := range []struct {
		name      string
		given, ok bool
	}{
		{"LargeStream", c.LargeStream, stream},
		{"AcceptTo", c.AcceptTo != nil, f.Kind == ring.KindListener},
		{"LargestDatagram", c.LargestDatagram != 0, !stream},
		{"Timestamps", c.Timestamps, !stream},
		{"HardwareTimestamps", c.HardwareTimestamps != nil, !stream},
		{"TAIOffset", c.TAIOffset != 0, !stream},
		{"TxTimestamps", c.TxTimestamps, !stream},
		{"PacketInfo", c.PacketInfo, !stream},
	} {
		if x.given && !x.ok {
			return nil, fmt.Errorf("AdoptConfig.%s is not for a %s: %w", x.name, f, unix.EINVAL)
		}
	}
	return c.options(), nil
}

// options converts the configuration to the common form.
func (c *AdoptConfig) options() *options {
	return &options{SocketConfig: c.SocketConfig, largeStream: c.LargeStream, acceptTo: c.AcceptTo, largestDatagram: c.LargestDatagram,
		timestamps: c.Timestamps, hardwareTimestamps: c.HardwareTimestamps, taiOffset: c.TAIOffset, txTimestamps: c.TxTimestamps,
		packetInfo: c.PacketInfo}
}

// Adopt makes a Socket from the descriptor of a socket that was made elsewhere: a connection that another poller's AcceptTo took, a socket of
// package net, or one inherited from the parent process. The kernel is asked what the descriptor is. Adopt takes connected TCP streams, TCP
// listeners, UDP sockets (bound, connected or neither), connected unix-domain streams and their listeners. Anything else, and a stream that
// is not connected, is an error that says what it is. So is one that a socket of this process has already (EEXIST).
//
// On success the descriptor belongs to the Socket, whose Close closes it; the caller must not close it. Duplicate the descriptor of a net.Conn
// or an *os.File first, because their Close and finalizers close it. On an error the descriptor is unchanged and still the caller's. No
// completion announces the socket. Data that waits in the kernel comes as any other packet, and a pending error as the event it is.
//
// Owner only, or anyone before the first Poll.
func (p *Poller) Adopt(fd int, c AdoptConfig) (*Socket, error) {
	s, err := p.adopt(fd, c)
	p.tracer.made("Adopt", strconv.Itoa(fd), s, err)
	return s, err
}

// adopt is Adopt without a line in the log.
func (p *Poller) adopt(fd int, c AdoptConfig) (*Socket, error) {
	if err := p.mayUse(); err != nil {
		return nil, fmt.Errorf("xtreme: Adopt: %w", err)
	}
	f, err := p.engine.inspect(fd)
	if err != nil {
		return nil, fmt.Errorf("xtreme: Adopt: %w", err)
	}
	o, err := c.optionsFor(f)
	if err != nil {
		return nil, fmt.Errorf("xtreme: Adopt: %w", err)
	}
	of := protocolTCP
	switch {
	case f.Family == ring.UnixDomain:
		of = protocolUnix
	case f.Kind == ring.KindDatagram:
		of = protocolUDP
	}
	if err := p.offloadPossible(of, o); err != nil {
		return nil, fmt.Errorf("xtreme: Adopt %s: %w", f, err)
	}
	p.making = true
	defer func() { p.making = false }()
	set, err := p.adoptingSet(&f)
	if err != nil {
		return nil, fmt.Errorf("xtreme: Adopt %s: %w", f, err)
	}
	s, err := set.Adopt(f, p.engine.ringConfig(o), o.apply)
	if err != nil {
		panicIfFatal(err)
		return nil, fmt.Errorf("xtreme: Adopt: %w", err)
	}
	p.engine.opened.Inc()
	return s, nil
}
