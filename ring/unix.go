package ring

import (
	"fmt"
	"strings"
)

// Unix-domain stream sockets keep the whole contract of TCP ones; only their addresses are names. A name is a path, or an abstract
// one written with a leading "@", as package net has it. What is TCP's own (no-delay, keepalive, linger, deadlines of the protocol)
// is refused by name. Abort and a linger of 0 have no reset to send: the peer sees the end of the stream, or ECONNRESET if it sent
// something that was not read. Descriptors that a peer passes (SCM_RIGHTS) are not offered: the kernel closes them as the
// bytes they came with are read. Datagram and seqpacket unix sockets are not offered either.

// unixEnd is what a unix-domain socket has in the place of addresses.
type unixEnd struct {
	local, remote string
	file          UnixFile // that BindUnix made; zero: none
	keepFile      bool     // and it is to stay
}

// maxUnixPath is the longest name: sun_path's 108 bytes less the NUL, or less the leading one of an abstract name.
const maxUnixPath = 107

// NewUnix makes a unix-domain stream socket. It has no ring yet: BindUnix and Listen, or ConnectUnix, follow.
func (set *Set) NewUnix(c Config) (*Socket, error) {
	if err := set.BeginCall(); err != nil {
		return nil, &OpError{Op: "socket", Err: err}
	}
	if _, ok := set.config.Transport.(UnixTransport); !ok {
		return nil, &OpError{Op: "socket", Err: &FeatureError{Feature: "unix-domain sockets, which are the kernel's", Code: "offload.no_kernel"}}
	}
	return set.openSocket(KindStream, UnixDomain, c)
}

// Unix reports whether the socket is a unix-domain one: it has names (LocalUnix, RemoteUnix) and no addresses. Any goroutine.
func (s *Socket) Unix() bool { return s.family == UnixDomain }

// LocalUnix is the name a unix-domain socket is bound to, accepted connections have their listener's; "" when it has none. Owner only.
func (s *Socket) LocalUnix() string {
	if !s.readable() || s.active().unix == nil {
		return ""
	}
	return s.active().unix.local
}

// RemoteUnix is the name of a unix-domain connection's peer; "" when it has none, as most clients. Owner only.
func (s *Socket) RemoteUnix() string {
	if !s.readable() || s.active().unix == nil {
		return ""
	}
	return s.active().unix.remote
}

// BindUnix binds a unix-domain socket to a name. A path must not exist (EADDRINUSE): a file that a process left behind is the
// caller's to remove. The file is removed when the socket is closed, unless SetUnlinkOnClose says otherwise; its permissions are
// what the umask leaves. As Bind, before the ring's first Poll from any one goroutine, then owner only.
func (s *Socket) BindUnix(name string) error {
	if err := s.mayUse("bind unix"); err != nil {
		return err
	}
	return traced(s, "bind unix", name, s.bindUnix(name))
}

// bindUnix is BindUnix for a caller that is the owner.
func (s *Socket) bindUnix(name string) error {
	if !s.Unix() || s.state != stateNew || s.active().unix.local != "" {
		return stateError("bind unix", s)
	}
	if err := checkUnixName("bind unix", name); err != nil {
		return err
	}
	bound, file, err := s.transport().(UnixTransport).BindUnix(s, name)
	if err != nil {
		return unixError("bind unix", name, err)
	}
	s.activate().unix.local, s.activate().unix.file = bound, file
	return nil
}

// ConnectUnix connects a unix-domain socket. The kernel does it at once or not at all, so that an error comes from here: ENOENT,
// ECONNREFUSED (nobody listens), EACCES, or EAGAIN when the listener's backlog is full, about which nothing will tell when it is not
// any more. EventOut follows as it does after Connect.
func (s *Socket) ConnectUnix(name string) error {
	if err := s.mayUse("connect unix"); err != nil {
		return err
	}
	return traced(s, "connect unix", name, s.connectUnix(name))
}

// connectUnix is ConnectUnix for a caller that is the owner.
func (s *Socket) connectUnix(name string) error {
	if !s.Unix() || s.handle.Kind != KindStream || s.state != stateNew {
		return stateError("connect unix", s)
	}
	if err := checkUnixName("connect unix", name); err != nil {
		return err
	}
	peer, err := s.transport().(UnixTransport).ConnectUnix(s, name)
	if err != nil {
		return unixError("connect unix", name, err)
	}
	s.activate().unix.remote = peer
	if err := s.joinRing(); err != nil {
		return unixError("connect unix", name, err)
	}
	s.state = stateConnecting // for the application; the driver's first look makes it open, as with TCP
	s.touched = true
	s.describe()
	if err := s.ring().drv.NotifyWritable(s); err != nil {
		return unixError("connect unix", name, err)
	}
	return nil
}

// SetUnlinkOnClose says whether closing the socket removes the file that BindUnix made; it does by default. Only a file that is
// still the one that was made is removed, not one that another process has put in its place. (net: UnixListener.SetUnlinkOnClose.)
func (s *Socket) SetUnlinkOnClose(on bool) error {
	if err := s.mayUse("set unlink on close"); err != nil {
		return err
	}
	if !s.Unix() {
		return traced(s, "set unlink on close", on, stateError("set unlink on close", s))
	}
	s.activate().unix.keepFile = !on
	return traced(s, "set unlink on close", on, nil)
}

// removeFile removes the file that BindUnix made, when the socket is closed, unless SetUnlinkOnClose keeps it.
func (s *Socket) removeFile() error {
	if s.active().unix == nil || s.active().unix.file == (UnixFile{}) || s.active().unix.keepFile {
		return nil
	}
	file := s.active().unix.file
	s.activate().unix.file = UnixFile{}
	if err := s.transport().(UnixTransport).RemoveUnix(s.active().unix.local, file); err != nil {
		return unixError("remove socket file", s.active().unix.local, err)
	}
	return nil
}

// child makes the names of an accepted connection.
func (l *unixEnd) child(s *Socket) *unixEnd {
	if l == nil {
		return nil
	}
	return &unixEnd{local: l.local, remote: s.transport().(UnixTransport).AcceptedUnix(s)}
}

// ipOnly refuses what a unix-domain socket has not, where the kernel would take it and do nothing.
func (s *Socket) ipOnly(op string) error {
	if !s.Unix() {
		return nil
	}
	return &OpError{Op: op, Err: fmt.Errorf("%s socket %d has no such thing: %w", s.kindName(), s.ID(), ErrNotSupported)}
}

// checkUnixName is nil for a name that a unix-domain address can hold.
func checkUnixName(op, name string) error {
	abstract := strings.HasPrefix(name, "@") || strings.HasPrefix(name, "\x00")
	switch {
	case name == "":
		return badArgument(op, "name", `""`)
	case !abstract && len(name) > maxUnixPath:
		return badArgument(op, fmt.Sprintf("path of %d bytes, at most %d are possible:", len(name), maxUnixPath), name)
	case len(name) > maxUnixPath+1:
		return badArgument(op, fmt.Sprintf("name of %d bytes, at most %d are possible:", len(name), maxUnixPath+1), name)
	case !abstract && strings.ContainsRune(name, 0):
		return badArgument(op, "path with a NUL", fmt.Sprintf("%q", name))
	}
	return nil
}

func unixError(op, name string, err error) error {
	return &OpError{Op: op, Err: fmt.Errorf("%s: %w", name, err)}
}
