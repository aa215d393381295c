package extraapi

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Support is how far a socket has a feature.
type Support uint8

// The degrees of support.
const (
	No     Support = iota // the call returns an error
	Partly                // it works, and Reason says what is missing
	Yes                   // it works
)

// String is the value in words.
func (s Support) String() string {
	if int(s) < 3 {
		return [...]string{"no", "partly", "yes"}[s]
	}
	return fmt.Sprintf("Support(%d)", uint8(s))
}

// Feature names something that a socket can do on some paths and not on others.
type Feature string

// The features.
const (
	ReceiveCallback   Feature = "receive-callback"   // RegisterRecvCallback
	ZeroCopyReceive   Feature = "zero-copy-receive"  // RecvFromZeroCopy
	ZeroCopySend      Feature = "zero-copy-send"     // Socket.SendPacket
	WarmSend          Feature = "warm-send"          // DummySend
	NetworkHeader     Feature = "network-header"     // SocketNetworkHeader
	ArmRing           Feature = "arm-ring"           // ModifyRing with Arm
	ModerateRing      Feature = "moderate-ring"      // ModifyRing with Moderation
	WindowAtRelease   Feature = "window-at-release"  // TCP's window opens when packets are freed
	OutPerAck         Feature = "out-per-ack"        // EventOut on each acknowledgement that advances
	SharedMulticast   Feature = "shared-multicast"   // members of one group share a buffer
	ThreadIndependent Feature = "thread-independent" // the poller's goroutine may change its thread
)

// Features lists all features that Query knows.
func Features() []Feature {
	return []Feature{ReceiveCallback, ZeroCopyReceive, ZeroCopySend, WarmSend, NetworkHeader, ArmRing, ModerateRing, WindowAtRelease,
		OutPerAck, SharedMulticast, ThreadIndependent}
}

// Capability says how far a socket has a feature.
type Capability struct {
	Feature Feature
	Support Support
	Reason  xtreme.Reason // why not, or what is missing; zero with Yes
}

// String is feature, support and reason in one line.
func (c Capability) String() string {
	if c.Reason.Code == "" {
		return fmt.Sprintf("%s: %v", c.Feature, c.Support)
	}
	return fmt.Sprintf("%s: %v: %v", c.Feature, c.Support, c.Reason)
}

// Query returns how far a socket has a feature on the path that it has now. Errors: a socket without a ring (ErrState) or closed (ErrClosed), an
// unknown feature (EINVAL), another goroutine than the owner (ErrOwner). (VMA: vma_extra_supported_mask, in which every bit is always set.)
func Query(s *xtreme.Socket, f Feature) (Capability, error) {
	c := Capability{Feature: f, Support: No}
	if s == nil {
		return c, noSocket("Query")
	}
	if err := s.Check(); err != nil {
		return c, fmt.Errorf("extraapi: Query: socket %d: %w", s.ID(), err)
	}
	ask, ok := queries[f]
	if !ok {
		return c, fmt.Errorf("extraapi: Query: feature %q: %w", f, unix.EINVAL)
	}
	c.Support, c.Reason = ask(s)
	return c, nil
}

// Capabilities is Query for all features, in the order of Features.
func Capabilities(s *xtreme.Socket) ([]Capability, error) {
	var all []Capability
	for _, f := range Features() {
		c, err := Query(s, f)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// The reasons that only this package gives.
var (
	listenerOnly = ring.Reason{Code: "socket.listener",
		Text: "a listener receives nothing; its connections have what it was given"}
	kernelCopy = ring.Reason{Code: "os.kernel_copy",
		Text: "the kernel copies each packet once, into the ring's buffer; from there to the application nothing is copied"}
	pullOnly = ring.Reason{Code: "socket.completions",
		Text: "the socket is in completion mode: its packets come from Poll, without copying as well"}
)

// queries has the function that answers Query for each feature. The socket has a ring, and the caller is its owner.
var queries = map[Feature]func(*xtreme.Socket) (Support, ring.Reason){
	ReceiveCallback: canReceive,
	ZeroCopyReceive: func(s *xtreme.Socket) (Support, ring.Reason) {
		switch {
		case s.Kind() == xtreme.KindListener:
			return No, listenerOnly
		case s.Mode() == ring.Completions:
			return No, pullOnly
		case !s.IsOffloaded():
			return Partly, kernelCopy
		}
		return Yes, ring.Reason{}
	},
	ZeroCopySend: func(s *xtreme.Socket) (Support, ring.Reason) {
		support, why := byCapability(ring.CapZeroCopySend)(s)
		if support == No {
			support = Partly // SendPacket works, with a copy
		}
		return support, why
	},
	WarmSend: func(s *xtreme.Socket) (Support, ring.Reason) {
		why := s.WarmSendReason()
		switch {
		case why.Code == "":
			return Yes, why
		case s.Kind() != xtreme.KindDatagram:
			return No, why
		}
		return Partly, why
	},
	NetworkHeader: func(s *xtreme.Socket) (Support, ring.Reason) {
		switch {
		case s.IsOffloaded() && s.Kind() == xtreme.KindDatagram:
			return Yes, ring.Reason{}
		case s.IsOffloaded():
			return No, ring.Reason{Code: "header.own_tcp", Text: "the headers of a connection differ from segment to segment"}
		}
		return No, ring.Reason{Code: "os.kernel_headers", Text: "the kernel makes the headers of this socket's packets"}
	},
	ArmRing:         func(*xtreme.Socket) (Support, ring.Reason) { return Yes, ring.Reason{} },
	ModerateRing:    func(*xtreme.Socket) (Support, ring.Reason) { return No, noModeration },
	WindowAtRelease: byCapability(ring.CapWindowAtRelease),
	OutPerAck:       byCapability(ring.CapOutPerAck),
	SharedMulticast: byCapability(ring.CapSharedMulticast),
	ThreadIndependent: func(s *xtreme.Socket) (Support, ring.Reason) {
		if s.Ring().Caps().Has(ring.CapThreadBound) {
			return No, ring.Reason{Code: "ring.thread_bound", Text: "the ring lives on the thread of its first Poll"}
		}
		return Yes, ring.Reason{}
	},
}

// canReceive answers for features of receiving: a listener has them for its connections only.
func canReceive(s *xtreme.Socket) (Support, ring.Reason) {
	if s.Kind() == xtreme.KindListener {
		return Partly, listenerOnly
	}
	return Yes, ring.Reason{}
}

// byCapability returns the query for a feature that is a capability.
func byCapability(c ring.Caps) func(*xtreme.Socket) (Support, ring.Reason) {
	return func(s *xtreme.Socket) (Support, ring.Reason) {
		if why := s.Why(c); why.Code != "" {
			return No, why
		}
		return Yes, ring.Reason{}
	}
}
