package epoll

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// describing is a ring.Monitor that keeps the state in which a socket was described last.
type describing struct{ state string }

func (*describing) OpenRing(*ring.Ring) *ring.RingPage       { return nil }
func (*describing) CloseRing(*ring.Ring)                     {}
func (*describing) OpenSocket(*ring.Socket) *ring.SocketPage { return &ring.SocketPage{} }
func (*describing) CloseSocket(*ring.Socket)                 {}
func (*describing) SkipSocket()                              {}
func (m *describing) DescribeSocket(s *ring.Socket)          { m.state = s.State() }
func (*describing) Refresh(*ring.Ring)                       {}

func (*describing) Happened(*ring.Socket, ring.Happening, string) {}

// The owner may sleep after Adopt, without a Poll: what other processes see of the socket is what it is then.
func TestAdoptedSocketIsDescribedAsOpen(t *testing.T) {
	pool, err := buffers.New(make([]byte, testLayout.Bytes()), testLayout)
	require.NoError(t, err)
	m := &describing{}
	set, err := ring.NewSet(ring.SetConfig{Transport: kernel.New(), Pool: pool, Kind: "epoll", Driver: New, Monitor: m})
	require.NoError(t, err)
	defer func() { require.NoError(t, set.Close()) }()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer func() { _ = unix.Close(fds[1]) }()
	a, err := kernel.Inspect(fds[0])
	require.NoError(t, err)
	_, err = set.Adopt(a, ring.Config{}, nil)
	require.NoError(t, err)
	require.Equal(t, "open", m.state)
}
