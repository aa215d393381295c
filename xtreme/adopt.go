package xtreme

import (
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// AdoptConfig is what Adopt makes a socket with. What is not here is a call on Socket, or belongs to steps that are done. Fields are as in
// ListenConfig and UDPConfig; those for another kind of socket than the one found are an error that names them.
type AdoptConfig struct {
	SocketConfig

	LargeStream bool                                           // of a TCP or unix-domain stream or listener
	AcceptTo    func(fd int, peer netip.AddrPort) (taken bool) // of a listener

	// of a UDP socket
	LargestDatagram    int
	Timestamps         bool
	HardwareTimestamps *HardwareTimestamps
	TAIOffset          time.Duration
	TxTimestamps       bool
	PacketInfo         bool
}

// optionsFor is what the configuration comes to for the socket that was found.
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

func (c *AdoptConfig) options() *options {
	return &options{SocketConfig: c.SocketConfig, largeStream: c.LargeStream, acceptTo: c.AcceptTo, largestDatagram: c.LargestDatagram,
		timestamps: c.Timestamps, hardwareTimestamps: c.HardwareTimestamps, taiOffset: c.TAIOffset, txTimestamps: c.TxTimestamps,
		packetInfo: c.PacketInfo}
}

// Adopt takes over the descriptor of a socket that was made elsewhere: a connection that another poller's AcceptTo took, a socket from
// package net, one inherited from the process that started this one. What it is the kernel is asked: a connected TCP stream, a TCP
// listener, a UDP socket (bound, connected or neither yet), a connected unix-domain stream or a listener for such. Everything
// else is an error that says what it is; so is a stream that is not connected.
//
// On success the descriptor belongs to the socket: Close closes it and nobody else may. From a net.Conn or an *os.File duplicate it
// first (their Close and finalizers would close it). On an error it stays the caller's, as it was. No completion
// announces the socket; what waits in the kernel comes as any other packet, an error that is pending as the event it is.
//
// Owner only, or anyone before the first Poll.
func (p *Poller) Adopt(fd int, c AdoptConfig) (*Socket, error) {
	if err := p.mayUse(); err != nil {
		return nil, fmt.Errorf("xtreme: Adopt: %w", err)
	}
	f, err := kernel.Inspect(fd)
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
	if err := p.possible(of, o); err != nil {
		return nil, fmt.Errorf("xtreme: Adopt %s: %w", f, err)
	}
	p.making = true
	defer func() { p.making = false }()
	s, err := p.set.Adopt(f, p.engine.ringConfig(o), o.apply)
	if err != nil {
		dieOf(err)
		return nil, fmt.Errorf("xtreme: Adopt: %w", err)
	}
	p.engine.opened.Inc()
	return s, nil
}
