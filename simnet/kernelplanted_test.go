package simnet

import (
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/offload/shadow"
)

// wrongDevice is a program that rings do not use as they should.
type wrongDevice struct {
	nic.Device
	claim, release func(f link.Flow) (skip bool)
	queue          func(q *kqueue) link.Staged
}

func (d *wrongDevice) Claim(f link.Flow) error {
	if d.claim != nil && d.claim(f) {
		return nil
	}
	return d.Device.Claim(f)
}

func (d *wrongDevice) Release(f link.Flow) error {
	if d.release != nil && d.release(f) {
		return nil
	}
	return d.Device.Release(f)
}

func (d *wrongDevice) PrepareQueue(queue int, pool *buffers.DriverPool, fill int) (link.Staged, error) {
	q, err := d.Device.PrepareQueue(queue, pool, fill)
	if err == nil && d.queue != nil {
		return d.queue(q.(*kqueue)), nil
	}
	return q, err
}

// stubborn is a queue whose frames wait while its interface is down, and whose ring is not told so.
type stubborn struct{ *kqueue }

func (q stubborn) Flush() error {
	if n := q.device.nic; !n.present || n.index != q.device.index || !n.up {
		return nil
	}
	return q.kqueue.Flush()
}

func (q stubborn) Pending() bool { return false }

// repeater is a queue that delivers some frames twice.
type repeater struct {
	*kqueue
	turn *every
}

func (q repeater) Receive(dst []link.Frame) int {
	n := q.kqueue.Receive(dst)
	if n > 0 && n < len(dst) && q.turn.now() {
		b := dst[n-1].Packet.Bytes()
		if i, ok := q.pool.Take(buffers.Small); ok {
			l := q.pool.Layout()
			k := copy(q.pool.Memory(i)[l.Headroom:], b)
			dst[n] = dst[n-1]
			dst[n].Packet = q.pool.Fill(i, l.Headroom, k, 0)
			n++
		}
	}
	return n
}

// wrongKernel is a kernel whose sockets rings do not use as they should.
type wrongKernel struct {
	shadow.Kernel
	membership func(fd int, group netip.Addr, ifIndex int, join bool) (skip bool)
	close      func(fd int) (skip bool)
	neverReady bool // sockets are never ready
	open       bool // nothing is refused
	twice      *every
	blind      bool // sockets of others are not listed
}

func (k *wrongKernel) SetMembership(fd int, group netip.Addr, ifIndex int, source netip.Addr, join bool) error {
	if k.membership != nil && k.membership(fd, group, ifIndex, join) {
		return nil
	}
	return k.Kernel.SetMembership(fd, group, ifIndex, source, join)
}

func (k *wrongKernel) Close(fd int) error {
	if k.close != nil && k.close(fd) {
		return nil
	}
	return k.Kernel.Close(fd)
}

func (k *wrongKernel) NewReadyList() (shadow.ReadyList, error) {
	l, err := k.Kernel.NewReadyList()
	if k.neverReady {
		return neverReadyList{l}, err
	}
	return l, err
}

type neverReadyList struct{ shadow.ReadyList }

func (neverReadyList) Control(int, int, uint32, uint32, uint32) syscall.Errno { return 0 }
func (neverReadyList) Poll([]sys.EpollEvent) (int, syscall.Errno)             { return 0, 0 }

func (k *wrongKernel) NewReceiver(pool *buffers.DriverPool) shadow.Receiver {
	return &wrongReceiver{Receiver: k.Kernel.NewReceiver(pool), kernel: k}
}

type wrongReceiver struct {
	shadow.Receiver
	kernel *wrongKernel
}

func (r *wrongReceiver) SetRefuse(f func(*ring.Meta) bool) {
	if !r.kernel.open {
		r.Receiver.SetRefuse(f)
	}
}

func (r *wrongReceiver) Datagram(k *ring.Sink, s *ring.Socket) shadow.Outcome {
	if t := r.kernel.twice; t != nil && t.now() {
		in := r.Receiver.(*receiver)
		if x := in.k.sockets[int(ring.HandleOf(s).Conn)]; x != nil && len(x.queue) > 0 {
			x.queue = slices.Insert(x.queue, 0, x.queue[0])
			x.bytes += len(x.queue[0].payload) + 576
		}
	}
	return r.Receiver.Datagram(k, s)
}

func (k *wrongKernel) OpenMembers() (shadow.Members, error) {
	m, err := k.Kernel.OpenMembers()
	if k.blind {
		return blindMembers{m}, err
	}
	return m, err
}

type blindMembers struct{ shadow.Members }

func (blindMembers) Bound() ([]host.Bound, error) { return nil, nil }

// silent is a ring whose events of one kind are lost.
type silent struct {
	poller
	events ring.Event
}

func (p silent) Poll(dst []ring.Completion) (int, error) {
	n, err := p.poller.Poll(dst)
	for i := range dst[:n] {
		dst[i].Events &^= p.events
	}
	return n, err
}

func withDevice(set func(d *wrongDevice)) func() kplant {
	return func() kplant {
		return kplant{kernel: func(c *KernelConfig) {
			c.device = func(inner nic.Device) nic.Device {
				d := &wrongDevice{Device: inner}
				set(d)
				return d
			}
		}}
	}
}

func withSockets(set func(k *wrongKernel)) func() kplant {
	return func() kplant {
		return kplant{kernel: func(c *KernelConfig) {
			c.calls = func(inner shadow.Kernel) shadow.Kernel {
				k := &wrongKernel{Kernel: inner}
				set(k)
				return k
			}
		}}
	}
}

// A bug of every kind, put between the rings and their kernel, must be found within 40 seeds, under the name of the invariant that it breaks.
func TestPlantedBugsOnAKernelAreFound(t *testing.T) {
	for i, x := range []struct {
		name  string
		found []string
		plant func() kplant
	}{
		{"a claim is not released", []string{"leak: "}, withDevice(func(d *wrongDevice) {
			d.release = func(f link.Flow) bool { return f.Local.Port()%20 == 1 }
		})},
		{"a claim is not made", []string{"path: "}, withDevice(func(d *wrongDevice) {
			d.claim = func(f link.Flow) bool { return f.Local.Port() == 7001 }
		})},
		{"claims are not made again on a device that was opened again", []string{"path: "}, func() kplant {
			opened := 0
			return withDevice(func(d *wrongDevice) {
				opened++
				again := opened > 2
				d.claim = func(link.Flow) bool { return again }
			})()
		}},
		{"more is claimed than a ring has", []string{"stolen: "}, withDevice(func(d *wrongDevice) {
			d.claim = func(f link.Flow) bool {
				f.Local = netip.AddrPortFrom(eth0Addr.Addr(), 7100)
				f.Remote = netip.AddrPort{}
				if k := d.Device.(*kdevice); k.claims[f] == nil {
					k.claims[f] = &kclaim{n: 1 << 20}
				}
				return false
			}
		})},
		{"frames wait while the interface is down", []string{"late: "}, withDevice(func(d *wrongDevice) {
			d.queue = func(q *kqueue) link.Staged { return stubborn{q} }
		})},
		{"a queue delivers a frame twice", []string{"duplicate: "}, func() kplant {
			turn := &every{of: 100}
			return withDevice(func(d *wrongDevice) { d.queue = func(q *kqueue) link.Staged { return repeater{q, turn} } })()
		}},
		{"shadows are not read", []string{"losses: ", "path: "}, withSockets(func(k *wrongKernel) { k.neverReady = true })},
		{"a shadow delivers a datagram twice", []string{"duplicate: "}, withSockets(func(k *wrongKernel) { k.twice = &every{of: 20} })},
		{"what a shadow receives of other groups is not refused", []string{"target: "}, withSockets(func(k *wrongKernel) { k.open = true })},
		{"a group is joined in the stack alone", []string{"losses: ", "scenario: ", "path: "}, withSockets(func(k *wrongKernel) {
			k.membership = func(_ int, group netip.Addr, _ int, _ bool) bool { return group == kernelGroups[1] }
		})},
		{"groups are not joined again on an interface that was made again", []string{"losses: ", "scenario: ", "path: ", "stolen: "},
			withSockets(func(k *wrongKernel) {
				k.membership = func(_ int, _ netip.Addr, ifIndex int, _ bool) bool { return ifIndex > 2 }
			})},
		{"a descriptor is not closed", []string{"leak: ", "path: ", "stolen: "}, withSockets(func(k *wrongKernel) { k.close = func(int) bool { return true } })},
		{"sockets of other programs are not seen", []string{"stolen: "}, withSockets(func(k *wrongKernel) { k.blind = true })},
		{"PATH is not told", []string{"paths: "}, func() kplant {
			return kplant{host: func(c *HostConfig) { c.poller = func(p poller) poller { return silent{p, ring.EventPath} } }}
		}},
		{"a job is lost", []string{"path: ", "livelock: "}, func() kplant {
			turn := &every{of: 7}
			return kplant{kernel: func(c *KernelConfig) {
				c.job = turn.now
			}}
		}},
		{"a change of the tables is missed", []string{"path: ", "losses: ", "paths: "}, func() kplant {
			turn := &every{of: 5}
			return kplant{kernel: func(c *KernelConfig) {
				c.notice = func(what func()) func() {
					if turn.now() {
						return func() {}
					}
					return what
				}
			}}
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			if raceEnabled && i%5 != 0 { // what the race detector looks at is the same for all
				t.Skip("without the race detector only")
			}
			t.Parallel()
			f, ran := Trial[kop]{Count: 40, Workers: 1, Once: true, Shrinks: -1, Generate: generateKernel,
				Run: func(seed uint64, ops []kop) (uint64, error) {
					_, trace, err := playKernel(seed, ops, x.plant())
					return trace, err
				}}.Search()
			require.NotNil(t, f, "not found in %d seeds", ran)
			require.True(t, slices.ContainsFunc(x.found, func(s string) bool { return strings.Contains(f.Err.Error(), s) }), "%v", f.Err)
			t.Logf("%d seeds: %v", ran, f.Err)
		})
	}
}
