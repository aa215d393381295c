package xtreme

import (
	"net/netip"

	"github.com/socketxtreme/socketxtreme/ring"
)

// UnixListenConfig is what ListenUnix makes a listener with. LargeStream, Backlog and AcceptTo are as in ListenConfig.
type UnixListenConfig struct {
	SocketConfig
	LargeStream bool
	Backlog     int
	AcceptTo    func(fd int, peer netip.AddrPort) (taken bool)
	// KeepSocketFile leaves the file behind when the listener is closed; without, it is removed, as net.UnixListener does.
	KeepSocketFile bool
}

func (c *UnixListenConfig) options() *options {
	return &options{SocketConfig: c.SocketConfig, largeStream: c.LargeStream, backlog: c.Backlog, acceptTo: c.AcceptTo}
}

// ListenUnix makes a unix-domain stream listener. name is a path, or an abstract name with a leading "@", as package net has it. A
// path must not exist (EADDRINUSE): a file left behind is the caller's to remove first. Closing the listener removes the file
// (KeepSocketFile leaves it). Connections come as EventNewConnection completions, without addresses: see Socket.LocalUnix and RemoteUnix.
//
// Descriptors that a peer passes (SCM_RIGHTS) are not offered: the kernel closes them.
func (p *Poller) ListenUnix(name string, c UnixListenConfig) (*Socket, error) {
	o := c.options()
	return p.make(making{call: "ListenUnix", protocol: protocolUnix, options: o}, name, p.newUnix, func(s *Socket) error {
		if err := s.BindUnix(name); err != nil {
			return err
		}
		if err := s.SetUnlinkOnClose(!c.KeepSocketFile); err != nil {
			return err
		}
		return listen(s, o)
	})
}

// UnixDialConfig is what DialUnix makes a connection with. LargeStream is as in ListenConfig.
type UnixDialConfig struct {
	SocketConfig
	LargeStream bool
}

func (c *UnixDialConfig) options() *options {
	return &options{SocketConfig: c.SocketConfig, largeStream: c.LargeStream}
}

// DialUnix connects to a unix-domain stream listener; name is as for ListenUnix. The kernel connects at once or not at all: Out
// follows, or the error is returned here, EAGAIN when the listener's backlog is full among them, which is the caller's to try again.
func (p *Poller) DialUnix(name string, c UnixDialConfig) (*Socket, error) {
	return p.make(making{call: "DialUnix", protocol: protocolUnix, options: c.options()}, name, p.newUnix, func(s *Socket) error {
		return s.ConnectUnix(name)
	})
}

func (p *Poller) newUnix(c ring.Config) (*Socket, error) { return p.set.NewUnix(c) }
