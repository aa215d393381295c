package xtreme

// ListenUnix makes a unix-domain stream listener. name is a path, or an abstract name with a leading "@", as package net has it. A
// path must not exist (EADDRINUSE): a file left behind is the caller's to remove first. Closing the listener removes the file
// (KeepSocketFile leaves it). Connections come as EventNewConnection completions, without addresses: see Socket.LocalUnix and RemoteUnix.
//
// Options are those that mean something here: SendBuffer, Backlog, AcceptTo, KeepSocketFile and what concerns the socket itself;
// NoDelay, KeepAlive, Linger and others of TCP's are refused by name. Descriptors that a peer passes (SCM_RIGHTS) are not offered:
// the kernel closes them.
func (p *Poller) ListenUnix(name string, opt ...Option) (*Socket, error) {
	return p.openRings("ListenUnix", forUnixListener, name, opt, p.newUnix, func(s *Socket, c *options) error {
		if err := s.BindUnix(name); err != nil {
			return err
		}
		if err := s.SetUnlinkOnClose(!c.keepFile); err != nil {
			return err
		}
		return s.Listen(c.backlog)
	})
}

// DialUnix connects to a unix-domain stream listener; name is as for ListenUnix. The kernel connects at once or not at all: Out
// follows, or the error is returned here, EAGAIN when the listener's backlog is full among them, which is the caller's to try again.
func (p *Poller) DialUnix(name string, opt ...Option) (*Socket, error) {
	return p.openRings("DialUnix", forUnixDialer, name, opt, p.newUnix, func(s *Socket, _ *options) error {
		return s.ConnectUnix(name)
	})
}

func (p *Poller) newUnix(c *options) (*Socket, error) { return p.set.NewUnix(c.socket) }
