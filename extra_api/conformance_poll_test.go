package extraapi_test

import (
	"net"

	"golang.org/x/sys/unix"

	extraapi "github.com/socketxtreme/socketxtreme/extra_api"
	"github.com/socketxtreme/socketxtreme/ring"
)

func pollNewConnection(w *world) {
	l := w.listen()
	s := w.socket(ring.KindStream)
	w.NoError(s.Connect(l.LocalAddr()))
	w.event(s, ring.EventOut)
	c := w.accept(l)
	w.Same(l, c.Listener)
	w.Equal(uint64(c.Socket.ID()), c.UserData)
	w.Equal(s.LocalAddr(), c.Source, "VMA's test only logs it")
	w.Equal(l.LocalAddr(), c.Destination)
}

func pollPacket(w *world) {
	s, peer := w.pair(w.listen())
	_, err := peer.Write([]byte("message"))
	w.NoError(err)
	c := w.event(s, ring.EventPacket)
	w.Equal(1, c.Packet.NumBuffers())
	w.Equal(7, c.Packet.Len())
	w.Equal("message", string(c.Packet.Bytes()))
	w.NoError(c.Packet.Release())
	w.NoError(peer.Close())
	w.event(s, ring.EventIn|ring.EventRdHup)
}

func pollUserData(w *world) {
	l := w.listen()
	peer := w.dial(l)
	s := w.accept(l).Socket
	s.SetUserData(0xfeed)
	_, err := peer.Write([]byte("x"))
	w.NoError(err)
	c := w.event(s, ring.EventPacket)
	w.Equal(uint64(0xfeed), c.UserData)
	w.NoError(c.Packet.Release())
}

func pollDatagram(w *world) {
	s, p := w.udp(), w.peer()
	p.write([]byte("datagram"), s.LocalAddr())
	c := w.event(s, ring.EventPacket)
	w.Equal(1, c.Packet.NumBuffers())
	w.Equal(8, c.Packet.Len())
	w.Equal("datagram", string(c.Packet.Bytes()))
	w.Equal(uint64(s.ID()), c.UserData)
	w.Equal(p.addr(), c.Source)
	w.NoError(c.Packet.Release())
}

// rings asserts how many rings a socket has, and that the array is touched for those only; it returns the descriptor of the one.
func (w *world) rings(s *ring.Socket, want int) int {
	w.t.Helper()
	fds := []int{-7, -7}
	n, err := extraapi.SocketRingsFDs(s, fds)
	w.NoError(err)
	w.Equal(want, n)
	w.Equal(want, extraapi.SocketRingsNum(s))
	w.Equal(-7, fds[want])
	if want == 1 {
		w.GreaterOrEqual(fds[0], 0)
	}
	return fds[0]
}

func ringsOfNothing(w *world)    { w.rings(nil, 0) }
func ringsOfUnboundUDP(w *world) { w.rings(w.socket(ring.KindDatagram), 0) }

func ringsOfBoundUDP(w *world) {
	s := w.udp()
	w.rings(s, 1)
	_, err := extraapi.SocketRingsFDs(s, nil)
	w.ErrorIs(err, unix.EINVAL)
}

// No call here blocks, so that the blocking and the non-blocking connect are one.
func ringsOfConnectedUDP(w *world) {
	s := w.socket(ring.KindDatagram)
	w.NoError(s.Connect(w.peer().addr()))
	w.rings(s, 1)
}

func ringsOfUnconnectedTCP(w *world) {
	s := w.socket(ring.KindStream)
	w.rings(s, 0)
	w.NoError(s.Bind(w.local))
	w.rings(s, 0)
}

func ringsOfListener(w *world) { w.rings(w.listen(), 1) }

func ringsOfConnectingTCP(w *world) {
	s := w.socket(ring.KindStream)
	w.NoError(s.Connect(w.server().Addr().(*net.TCPAddr).AddrPort()))
	w.rings(s, 1)
}

// device ties s to the loopback interface: the kernel lets everybody do that once (since Linux 5.7).
func (w *world) device(s *ring.Socket) { w.NoError(s.BindToDevice("lo")) }

func ringsOfDevice(w *world) {
	s := w.socket(ring.KindStream)
	w.device(s)
	w.rings(s, 1)
}

func ringsOfBoundDevice(w *world) {
	s := w.socket(ring.KindStream)
	w.NoError(s.Bind(w.local))
	w.rings(s, 0)
	w.device(s)
	fd := w.rings(s, 1)
	w.NoError(s.Connect(w.server().Addr().(*net.TCPAddr).AddrPort()))
	w.Equal(fd, w.rings(s, 1))
}

func ringsOfDeviceBound(w *world) {
	s := w.socket(ring.KindStream)
	w.device(s)
	fd := w.rings(s, 1)
	w.NoError(s.Bind(w.local))
	w.Equal(fd, w.rings(s, 1))
	w.NoError(s.Connect(w.server().Addr().(*net.TCPAddr).AddrPort()))
	w.Equal(fd, w.rings(s, 1))
}
