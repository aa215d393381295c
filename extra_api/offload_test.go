package extraapi_test

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	extraapi "github.com/socketxtreme/socketxtreme/extra_api"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// cabled is a poller of kind offload on one end of a cable.
func cabled(t *testing.T, change ...func(*conf.Settings)) (*testnet.Net, *xtreme.Engine, *xtreme.Poller) {
	n := testnet.New(t, testnet.Pair{})
	s := conf.Default()
	s.Ring, s.SmallBuffers, s.LargeBuffers = conf.RingOffload, 1024, 16
	for _, f := range change {
		f(&s)
	}
	s.Logger = slog.New(slog.DiscardHandler)
	e, err := xtreme.New(s)
	require.NoError(t, err)
	t.Attr("ring", string(s.Ring))
	p, err := e.NewPoller("cabled", xtreme.PollerConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()); require.NoError(t, e.Close()) })
	return n, e, p
}

// codes are the reason codes of a socket's path.
func codes(s *xtreme.Socket) (list []string) {
	for _, r := range s.Path().Reasons {
		list = append(list, r.Code)
	}
	return list
}

// What a socket can be configured with.
var (
	required   = xtreme.SocketConfig{RequireOffload: true}
	kernelOnly = xtreme.SocketConfig{KernelOnly: true}
)

// A socket, a poller, a rule: each can leave sockets to the kernel, and the path says which it was.
func TestOffloadChoice(t *testing.T) {
	n, e, p := cabled(t)
	open := func(c ...xtreme.SocketConfig) *xtreme.Socket {
		s, err := p.OpenUDP(netip.AddrPortFrom(n.Local(0), 0), xtreme.UDPConfig{SocketConfig: append(c, xtreme.SocketConfig{})[0]})
		require.NoError(t, err)
		return s
	}
	tier := func(s *xtreme.Socket, want string) {
		t.Helper()
		require.Equal(t, want, s.Path().Tier, s.Path())
	}
	before := open()
	tier(before, "bypass")
	tier(open(required), "bypass")
	left := open(kernelOnly)
	tier(left, "kernel")
	require.Contains(t, codes(left), "offload.declined")
	_, err := p.OpenUDP(netip.AddrPortFrom(n.Local(0), 0), xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{RequireOffload: true,
		KernelOnly: true}})
	require.ErrorIs(t, err, ring.ErrNotSupported)
	require.ErrorContains(t, err, "opened for the kernel")

	require.NoError(t, extraapi.ThreadOffload(p, false))
	left = open()
	tier(left, "kernel")
	require.Contains(t, codes(left), "offload.declined")
	tier(before, "bypass")
	tier(open(required), "bypass")
	require.NoError(t, extraapi.ThreadOffload(p, true))
	tier(open(), "bypass")

	require.NoError(t, extraapi.AddRule(e, "use os udp_receiver "+n.Local(0).String()+":7007", true))
	s, err := p.OpenUDP(netip.AddrPortFrom(n.Local(0), 7007), xtreme.UDPConfig{})
	require.NoError(t, err)
	tier(s, "kernel")
	require.Contains(t, codes(s), "rule.os")
	tier(open(), "bypass")

	for range 2 { // VMA refuses the valid line after a bad one
		text := e.Rules().String()
		err = extraapi.AddRule(e, "use os udp_receiver *:7008\nuse os udp_receivr *:7009", true)
		var mistake *conf.RuleError
		require.ErrorAs(t, err, &mistake)
		require.Equal(t, text, e.Rules().String(), "a bad line changes nothing")
	}
	require.NoError(t, extraapi.AddRule(e, "use os udp_receiver *:7008", true))
	s, err = p.OpenUDP(netip.AddrPortFrom(n.Local(0), 7008), xtreme.UDPConfig{})
	require.NoError(t, err)
	tier(s, "kernel")

	_, err = p.Poll(make([]xtreme.Completion, 1))
	require.NoError(t, err)
	failed := make(chan error)
	go func() { failed <- extraapi.ThreadOffload(p, false) }()
	require.ErrorIs(t, <-failed, ring.ErrOwner)
}

// VMA_OFFLOADED_SOCKETS=0 leaves sockets to the kernel by default, as VMA's manual has it: a poller, or a socket, says otherwise.
func TestOffloadChoiceBesideTheSetting(t *testing.T) {
	n, e, p := cabled(t, func(s *conf.Settings) { s.KernelOnly = true })
	open := func(want string, c ...xtreme.SocketConfig) *xtreme.Socket {
		t.Helper()
		s, err := p.OpenUDP(netip.AddrPortFrom(n.Local(0), 0), xtreme.UDPConfig{SocketConfig: append(c, xtreme.SocketConfig{})[0]})
		require.NoError(t, err)
		require.Equal(t, want, s.Path().Tier, s.Path())
		return s
	}
	require.Contains(t, codes(open("kernel")), "setting.offloaded_sockets")
	open("bypass", required)
	require.Contains(t, codes(open("kernel")), "setting.offloaded_sockets", "a configuration is of its socket alone")

	require.NoError(t, extraapi.ThreadOffload(p, true))
	open("bypass")
	require.Contains(t, codes(open("kernel", kernelOnly)), "offload.declined")
	other, err := e.NewPoller("other", xtreme.PollerConfig{})
	require.NoError(t, err)
	s, err := other.OpenUDP(netip.AddrPortFrom(n.Local(0), 0), xtreme.UDPConfig{})
	require.NoError(t, err)
	require.Equal(t, "kernel", s.Path().Tier, "another poller keeps the setting")
	require.NoError(t, other.Close())

	require.NoError(t, extraapi.ThreadOffload(p, false))
	require.Contains(t, codes(open("kernel")), "offload.declined")
	open("bypass", required)

	// A rule comes after that, as in VMA.
	require.NoError(t, extraapi.ThreadOffload(p, true))
	require.NoError(t, extraapi.AddRule(e, "use os udp_receiver "+n.Local(0).String()+":*", true))
	require.Contains(t, codes(open("kernel")), "rule.os")
	_, err = p.OpenUDP(netip.AddrPortFrom(n.Local(0), 0), xtreme.UDPConfig{SocketConfig: required})
	require.ErrorIs(t, err, ring.ErrNotSupported)
}

func TestOffloadChoiceWithoutOffload(t *testing.T) {
	onEach(t, kernelKinds, func(w *world) {
		_, p := w.ownerOf()
		err := extraapi.ThreadOffload(p, true)
		var f *ring.FeatureError
		w.ErrorAs(err, &f)
		w.Equal("offload.not_asked", f.Code)
		w.NoError(extraapi.ThreadOffload(p, false))
		_, err = p.OpenUDP(w.local, xtreme.UDPConfig{SocketConfig: required})
		w.ErrorIs(err, ring.ErrNotSupported)
		s, err := p.OpenUDP(w.local, xtreme.UDPConfig{SocketConfig: kernelOnly})
		w.NoError(err)
		w.Equal("kernel", s.Path().Tier)
	})
	require.ErrorIs(t, extraapi.ThreadOffload(nil, true), unix.EINVAL)
	require.ErrorIs(t, extraapi.AddRule(nil, "", true), unix.EINVAL)
}

// The calls work on sockets of the engine as on rings made by hand: callback, pull, warm, header over a cable.
func TestThroughTheEngine(t *testing.T) {
	n, _, p := cabled(t)
	s, err := p.OpenUDP(netip.AddrPortFrom(n.Local(0), 0), xtreme.UDPConfig{SocketConfig: extraapi.RecvCallback(keep, true)})
	require.NoError(t, err)
	peer := n.Dial(s.LocalAddr())
	to := peer.LocalAddr().(interface{ AddrPort() netip.AddrPort }).AddrPort()
	done := make([]xtreme.Completion, 8)
	for range 3 {
		_, err := peer.Write([]byte("over the cable"))
		require.NoError(t, err)
		end := time.Now().Add(patience)
		for packets := 0; packets == 0; packets, _ = s.Waiting() {
			require.True(t, time.Now().Before(end))
			_, err := p.Poll(done)
			require.NoError(t, err)
		}
		k, sum, err := extraapi.RecvFromZeroCopy(s, done, 0, 0)
		require.NoError(t, err)
		require.Equal(t, []int{1, 14}, []int{k, sum})
		require.Equal(t, "over the cable", string(done[0].Packet.Bytes()))
		require.Equal(t, to, done[0].Source)
		_, err = extraapi.FreeCompletions(s, done[:k])
		require.NoError(t, err)
		require.NoError(t, extraapi.DummySend(s, []byte("x"), to))
	}
	c, err := extraapi.Query(s, extraapi.WarmSend)
	require.NoError(t, err)
	require.Equal(t, extraapi.Yes, c.Support)
	length, err := extraapi.SocketNetworkHeader(s, nil, to)
	require.NoError(t, err)
	require.Equal(t, 42, length)
}

// On an offloaded socket a datagram may come through the kernel's socket, a fragmented one for instance, and was copied there: ZeroCopyForce
// does not take it, and it stays.
func TestForceTakesNoCopyOfTheKernel(t *testing.T) {
	n, _, p := cabled(t)
	s, err := p.OpenUDP(netip.AddrPortFrom(n.Local(0), 0), xtreme.UDPConfig{SocketConfig: extraapi.Pull()})
	require.NoError(t, err)
	peer := n.Dial(s.LocalAddr())
	done := make([]xtreme.Completion, 8)
	for i, length := range []int{4, 4000, 5} {
		_, err := peer.Write(make([]byte, length))
		require.NoError(t, err)
		end := time.Now().Add(patience)
		for packets := 0; packets <= i; packets, _ = s.Waiting() {
			require.True(t, time.Now().Before(end))
			_, err := p.Poll(done)
			require.NoError(t, err)
		}
	}
	receive := func(flags extraapi.Flags, want ...int) {
		t.Helper()
		k, sum, err := extraapi.RecvFromZeroCopy(s, done, 0, flags)
		if len(want) == 0 {
			require.ErrorIs(t, err, unix.EIO)
			require.Zero(t, k)
			return
		}
		require.NoError(t, err)
		var lengths []int
		for i := range done[:k] {
			lengths = append(lengths, done[i].Packet.Len())
			sum -= done[i].Packet.Len()
		}
		kernel := done[0].ViaKernel
		_, err = extraapi.FreeCompletions(s, done[:k])
		require.NoError(t, err)
		require.Equal(t, want, lengths)
		require.Equal(t, want[0] == 4000, kernel)
		require.Zero(t, sum)
	}
	receive(extraapi.ZeroCopyForce, 4)
	receive(extraapi.ZeroCopyForce)
	receive(extraapi.ZeroCopyForce | extraapi.ZeroCopy)
	receive(extraapi.ZeroCopy, 4000, 5)
}

// The statistics of an offloaded poller have its sockets on each ring, and what its links count.
func TestDumpOfAnOffloadedPoller(t *testing.T) {
	n, _, p := cabled(t)
	s, err := p.OpenUDP(netip.AddrPortFrom(n.Local(0), 0), xtreme.UDPConfig{})
	require.NoError(t, err)
	l, err := p.ListenTCP(netip.AddrPortFrom(n.Local(0), 0), xtreme.ListenConfig{})
	require.NoError(t, err)
	peer := n.Dial(s.LocalAddr())
	to := peer.LocalAddr().(interface{ AddrPort() netip.AddrPort }).AddrPort()
	_, err = s.SendTo([]byte("123"), to)
	require.NoError(t, err)
	require.NoError(t, p.Flush())
	_, err = peer.Write([]byte("12345"))
	require.NoError(t, err)
	done := make([]xtreme.Completion, 4)
	for end := time.Now().Add(patience); s.Stats().Packets == 0; {
		require.True(t, time.Now().Before(end))
		k, err := p.Poll(done)
		require.NoError(t, err)
		_, err = extraapi.FreeCompletions(s, done[:k])
		require.NoError(t, err)
	}
	var one, all strings.Builder
	require.NoError(t, extraapi.DumpStats(&one, p, s.ID()))
	for _, want := range []string{s.LocalAddr().String(), s.Path().String(), "rx: packets 1, bytes 5", "tx: messages 1, bytes 3"} {
		require.Contains(t, one.String(), want)
	}
	require.NoError(t, extraapi.DumpStats(&all, p, 0))
	require.Contains(t, all.String(), one.String())
	require.ErrorIs(t, extraapi.DumpStats(&all, p, 1<<20), unix.EBADF)
	for _, want := range []string{l.Path().String(), ": offload, ", n.Device(0) + ".tx_frames ", n.Device(0) + ".rx_frames "} {
		require.Contains(t, all.String(), want)
	}
}

// The descriptor of an offloaded ring is polled as that of any other.
func TestPollByDescriptorOfAnOffloadedRing(t *testing.T) {
	n, e, p := cabled(t)
	s, err := p.OpenUDP(netip.AddrPortFrom(n.Local(0), 0), xtreme.UDPConfig{})
	require.NoError(t, err)
	require.Equal(t, "bypass", s.Path().Tier, s.Path())
	var fds [2]int
	count, err := extraapi.SocketRingsFDs(s, fds[:])
	require.NoError(t, err)
	require.Equal(t, 1, count)
	_, err = n.Dial(s.LocalAddr()).Write([]byte("by descriptor"))
	require.NoError(t, err)
	done := make([]xtreme.Completion, 4)
	for end := time.Now().Add(patience); ; {
		count, err = extraapi.Poll(e, fds[0], done)
		require.NoError(t, err)
		if count > 0 && done[0].Events.Has(xtreme.EventPacket) {
			break
		}
		require.True(t, time.Now().Before(end), "no packet")
	}
	require.Equal(t, 1, count)
	require.Equal(t, "by descriptor", string(done[0].Packet.Bytes()))
	require.False(t, done[0].ViaKernel)
	_, err = extraapi.FreeCompletions(s, done[:count])
	require.NoError(t, err)
	_, err = extraapi.Poll(e, s.ID(), done)
	require.ErrorIs(t, err, unix.EBADFD)
}
