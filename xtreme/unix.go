package xtreme

import (
	"net/netip"

	"github.com/socketxtreme/socketxtreme/ring"
)

// UnixListenConfig configures a unix-domain listener. LargeStream, Backlog and AcceptTo are as in ListenConfig.
type UnixListenConfig struct {
	SocketConfig
	LargeStream bool
	Backlog     int
	AcceptTo    func(fd int, peer netip.AddrPort) (taken bool)
	// KeepSocketFile keeps the socket's file when the listener is closed. false removes it, as net.UnixListener does.
	KeepSocketFile bool
}

// options converts the configuration to the common form.
func (c *UnixListenConfig) options() *options {
	return &options{SocketConfig: c.SocketConfig, largeStream: c.LargeStream, backlog: c.Backlog, acceptTo: c.AcceptTo}
}

// ListenUnix makes a unix-domain stream listener. name is a path, or an abstract name with a leading "@", as in package net. The path must not
// exist (EADDRINUSE): the caller removes a file that an earlier process left. Closing the listener removes the file, unless
// KeepSocketFile is set. Connections come as EventNewConnection completions; they have names instead of addresses (Socket.LocalUnix,
// RemoteUnix).
//
// Descriptors that a peer passes (SCM_RIGHTS) are not delivered: the kernel closes them.
func (p *Poller) ListenUnix(name string, c UnixListenConfig) (*Socket, error) {
	o := c.options()
	return p.makeSocket(makeCall{name: "ListenUnix", protocol: protocolUnix, options: o}, name, p.newUnix, func(s *Socket) error {
		if err := s.BindUnix(name); err != nil {
			return err
		}
		if err := s.SetUnlinkOnClose(!c.KeepSocketFile); err != nil {
			return err
		}
		return listen(s, o)
	})
}

// UnixDialConfig configures a unix-domain connection. LargeStream is as in ListenConfig.
type UnixDialConfig struct {
	SocketConfig
	LargeStream bool
}

// options converts the configuration to the common form.
func (c *UnixDialConfig) options() *options {
	return &options{SocketConfig: c.SocketConfig, largeStream: c.LargeStream}
}

// DialUnix connects to a unix-domain stream listener; name is as for ListenUnix. The kernel connects at once or not at all: either a completion
// with EventOut follows, or DialUnix returns the error. EAGAIN means that the listener's backlog is full; the caller may try again.
func (p *Poller) DialUnix(name string, c UnixDialConfig) (*Socket, error) {
	return p.makeSocket(makeCall{name: "DialUnix", protocol: protocolUnix, options: c.options()}, name, p.newUnix, func(s *Socket) error {
		return s.ConnectUnix(name)
	})
}

func (p *Poller) newUnix(c ring.Config) (*Socket, error) { return p.set.NewUnix(c) }
