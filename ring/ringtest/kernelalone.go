package ringtest

import (
	"errors"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// kernelAlone are the cases that only the kernel's sockets can pass, by name, each with what it needs of the kernel. Where the sockets of
// a ring are not the kernel's, they are skipped with that reason, and refusesKernelAlone asserts that the calls in question are refused.
var kernelAlone = map[string]string{
	"keepalive death: IN|HUP":                             KeepAlive,
	"TCP is paced by the kernel":                          kernelPacing,
	"a file goes out whole, in order with packets":        sendfile,
	"a file under way: deadline, close, abort, reset":     sendfile,
	"what is no file, or a short one":                     sendfile,
	"EMFILE with an empty backlog: the listener survives": descriptors,
	"adopt a connection":                                  adoption,
	"adopt an MPTCP connection":                           adoption,
	"adopt a connection that has ended":                   adoption,
	"adopt takes SO_LINGER over":                          adoption,
	"adopt a listener":                                    adoption,
	"adopt a datagram socket":                             adoption,
	"adopt unix sockets":                                  adoption,
	"adopt refuses, and leaves all as it was":             adoption,
	"adopt refuses the descriptor of a socket":            adoption,
	"accepted connections may go elsewhere":               AcceptAway,
	"AcceptTo that panics costs its connection":           AcceptAway,
	"connections withheld go to AcceptTo at Resume":       AcceptAway,
	"a connection goes to another owner":                  otherOwner,
	"unix: accept, echo, FIN":                             unixNames,
	"unix: dial":                                          unixNames,
	"unix: ends":                                          unixNames,
	"unix: the end that comes together with data":         unixNames,
	"unix: files":                                         unixNames,
	"unix: what it has not is refused":                    unixNames,
	"unix: AcceptTo":                                      unixNames,
	"no allocation on the path":                           kernelPeer,
}

// What a case needs of the kernel; see Backend.Has. Why the TCP of our own stack does not have it, and which test holds what it has instead:
const (
	sendfile  = "sendfile(2)"       // the kernel gives pages of its cache to its own TCP alone
	unixNames = "unix-domain names" // no link carries them
	adoption  = "adopting a descriptor"
	// A descriptor is a connection of the kernel's, with options that nobody can ask for: the kernel ring beside adopts it. A connection of the
	// stack that another ring accepted is adopted by its number: TestStreamContractOverAnotherRingsQueue of ring/offload.
	AcceptAway   = "AcceptTo, which lets a connection go"
	otherOwner   = "another owner that polls kernel sockets"   // TestAcceptedTCPGoesToAnotherPoller of xtreme
	kernelPacing = "pacing by the kernel (SO_MAX_PACING_RATE)" // our own TCP has no pacing: the call is refused, see refusals
	KeepAlive    = "keepalive probes"
	descriptors  = "a descriptor for each connection"        // those of the stack have none: TestAcceptWithoutDescriptors of ring/offload
	kernelPeer   = "a peer that sends by plain system calls" // TestStreamsAllocateNothing of ring/offload, with a stack at both ends
)

// refusals are the calls that only the kernel's sockets answer, by what they need. Descriptors, other owners and peers have none: nothing asks
// for them.
var refusals = map[string]func(*world) error{
	sendfile: func(w *world) error {
		s, _ := w.pair()
		f, err := os.Open(os.DevNull)
		w.NoError(err)
		defer f.Close()
		return s.SendFile(f, 0, 1, 1)
	},
	unixNames: func(w *world) error {
		_, err := w.set.NewUnix(ring.Config{})
		return err
	},
	adoption: func(w *world) error {
		one, _ := w.kernelPair()
		fd := w.madeElsewhere(one)
		defer os.NewFile(uintptr(fd), "adopted").Close()
		f, err := kernel.Inspect(fd)
		w.NoError(err)
		_, err = w.set.Adopt(f, ring.Config{}, nil)
		return err
	},
	AcceptAway: func(w *world) error {
		l := w.socket(ring.KindStream, w.local, ring.Config{AcceptTo: func(int, netip.AddrPort) bool { return false }})
		w.NoError(l.Bind(w.local))
		return errors.Join(l.Listen(0), l.Abort())
	},
	kernelPacing: func(w *world) error {
		s, _ := w.pair()
		return s.SetPacing(ring.Pacing{Rate: 1_000_000})
	},
	KeepAlive: func(w *world) error {
		s, _ := w.pair()
		return s.SetKeepAlive(1e9, 1e9, 1)
	},
}

// refusesKernelAlone: each call of kernelAlone is refused with a code and a sentence.
func refusesKernelAlone(t *testing.T, b Backend) {
	if b.Open == nil {
		t.Skip("the sockets are the kernel's: the cases themselves run")
	}
	for need, call := range refusals {
		if slices.Contains(b.Has, need) {
			continue
		}
		w := newWorld(t, b)
		err := call(w)
		w.ErrorIs(err, ring.ErrNotSupported, need)
		var why *ring.FeatureError
		w.ErrorAs(err, &why, need)
		w.NotEmpty(why.Code, need)
		w.NotEmpty(why.Feature, need)
	}
}
