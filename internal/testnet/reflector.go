package testnet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Reflect sends what comes in on an interface for an IPv4 address back to its sender, with source and destination exchanged, until the result is
// closed. It keeps no state, and no checksum changes. So a host whose veth ends there reaches itself over the wire, where the kernel would
// connect two of its own addresses within the host:
//
//	client   10.0.0.1:40000 ──► far:80          ┐            ┌ 10.0.0.1:40000 ──► far:80
//	                                            ├── veth ────┤
//	server   10.0.0.1:80    ◄── far:40000       ┘            └ far:40000 ──► 10.0.0.1:80
//
// The far address has a permanent entry in the host's table of neighbours; no interface has it. The interface is of the calling thread's network
// namespace. Frames go through a packet socket: the kernel leaves a frame that a program has redirected out of generic XDP.
func Reflect(ifName string, far netip.Addr) (io.Closer, error) {
	fail := func(what string, err error) (io.Closer, error) {
		return nil, fmt.Errorf("testnet: reflect on %s: %s: %w", ifName, what, err)
	}
	i, err := net.InterfaceByName(ifName)
	if err != nil {
		return fail("interface", err)
	}
	ipv4 := binary.NativeEndian.Uint16([]byte{8, 0})
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fail("socket", err)
	}
	r := &reflector{fd: fd, far: far.As4(), ended: make(chan struct{})}
	// The header of virtio carries what the sender has left to do: checksums, segments.
	err = errors.Join(unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1),
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000}),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: ipv4, Ifindex: i.Index}))
	if err != nil {
		_ = unix.Close(fd)
		return fail("packet socket", err)
	}
	r.stop = make(chan struct{})
	go r.run()
	return r, nil
}

// reflector is a packet socket and the goroutine that reads it.
type reflector struct {
	fd          int
	far         [4]byte
	stop, ended chan struct{}
}

// run reflects frames until stop is closed.
func (r *reflector) run() {
	defer close(r.ended)
	const virtio, ethernet = 10, 14 // lengths of the headers
	frame := make([]byte, virtio+ethernet+1<<16)
	for {
		n, err := unix.Read(r.fd, frame)
		select {
		case <-r.stop:
			return
		default:
		}
		if err != nil || n < virtio+ethernet+20 {
			continue
		}
		link, ip := frame[virtio:], frame[virtio+ethernet:]
		if [4]byte(ip[16:20]) != r.far {
			continue
		}
		exchange(link[0:6], link[6:12])
		exchange(ip[12:16], ip[16:20])
		_, _ = unix.Write(r.fd, frame[:n]) // refused: lost, as on the wire
	}
}

// exchange exchanges the bytes of two slices of one length.
func exchange(a, b []byte) {
	for i := range a {
		a[i], b[i] = b[i], a[i]
	}
}

// Close ends the reflecting.
func (r *reflector) Close() error {
	close(r.stop)
	<-r.ended
	return unix.Close(r.fd)
}
