package ringtest

import (
	"slices"
	"testing"
)

// needs is what a case cannot do without.
type needs uint8

const (
	// streams: TCP, or what comes with the kernel's sockets, see kernelAlone.
	streams needs = 1 << iota
	// datagrams: UDP.
	datagrams
	// waits: a second or more in which nothing is to be seen but the transport's timers. Those cases run at the end, side by side.
	waits
)

type contractCase struct {
	name  string
	run   func(*testing.T, Backend)
	needs needs
}

// cases is the contract. Names say what must hold.
var cases = []contractCase{
	{"capabilities are asserted both ways", capabilities, 0},
	{"what only the kernel can do is refused", refusesKernelAlone, streams},

	{"datagram: PACKET alone, with addresses", datagram, datagrams},
	{"datagram over IPv6", datagram6, datagrams | streams},
	{"stream over IPv6", stream6, datagrams | streams},
	{"stream data: PACKET alone", streamData, streams},
	{"new connection: listener, peer, user data", newConnection, streams},
	{"new connection and its data in one batch", newConnectionWithData, streams},
	{"thousands of children", thousands, streams},
	{"a connection that was busy ends as any other", busyConnection, streams},
	{"connect done: OUT", connectDone, streams},
	{"connect refused: IN|ERR|HUP", connectRefused, streams},
	{"connect times out: IN|HUP", connectTimeout, streams | waits},
	{"FIN: IN|RDHUP, after the data", fin, streams},
	{"reset: IN|ERR|HUP|RDHUP", reset, streams},
	{"reset after FIN is reported", resetAfterFin, streams},
	{"reset before it was accepted: announced, with its data, then the reset", resetBeforeAccept, streams},
	{"keepalive death: IN|HUP", keepaliveDeath, streams | waits},
	{"retransmission time-out: IN|HUP", retransmissionTimeout, streams | waits},
	{"a window that stays shut: IN|HUP", shutWindow, streams | waits},
	{"ICMP error of a datagram socket: ERR, the socket lives", datagramError, datagrams},

	{"a slice of length 1 loses nothing", sliceOfOne, 0},
	{"user data is latched when the event is raised", userDataLatch, 0},
	{"user data set on a new connection is on all that follows", userDataOnNewConnection, streams},
	{"packets queue and keep their order", packetsQueue, datagrams},
	{"a zero-length datagram, then a normal one", zeroLength, datagrams},
	{"65,507 bytes", largestDatagram, datagrams},
	{"a datagram is never cut silently", truncated, datagrams},
	{"multicast reaches every member", multicast, datagrams},
	{"source-specific multicast", sourceSpecific, datagrams},
	{"memberships of all sources and of some", changeFilters, datagrams},
	{"multicast: the kernel's defaults, and loop", multicastOptions, datagrams},
	{"more groups than a descriptor may have", membershipLimit, datagrams},
	{"timestamps when asked for", timestamps, datagrams},
	{"PATH: the way of a socket's packets changes, and back", pathChanges, datagrams},

	{"transmit stamps, both ways", transmitStamps, datagrams},
	{"transmit stamps allocate nothing", stampAllocation, datagrams},
	{"without a card stamps stay what they are", noCard, datagrams},
	{"settings of time are checked", stampArguments, datagrams},

	{"paced datagrams keep their rate", pacing, datagrams},
	{"pacing: the rule, to the byte, in virtual time", pacingRule, datagrams},
	{"a paced queue has an end", pacingQueue, datagrams},
	{"close with paced datagrams waiting", pacingClose, datagrams},
	{"pacing: bad arguments are named", pacingArguments, datagrams},
	{"a datagram longer than the burst", pacingLong, datagrams},
	{"TCP is paced by the kernel", pacingStream, streams},
	{"paced datagrams and errors", pacingErrors, datagrams},
	{"no allocation on the paced path", pacingAllocation, datagrams},

	{"pool exhaustion and recovery", exhaustion, datagrams},
	{"a starved socket gets the spare buffer of another ring", starvedBesideOther, datagrams | streams},
	{"one holder against the others", oneHolder, datagrams},
	{"sockets receive beside a reserve for sending", besideReserve, 0},
	{"one holder against the others beside a reserve", oneHolderBesideReserve, datagrams},
	{"budget stops and resumes reading", budget, datagrams},
	{"many stopped sockets let the ring sleep", manyStopped, datagrams},
	{"release from another goroutine", releaseElsewhere, 0},
	{"double release is an error", doubleRelease, 0},
	{"close with packets held", closeWithHeld, streams},

	{"close while a receive is armed: FIN leaves at once", closeSendsFin, streams},
	{"data sent just before close arrives", dataBeforeClose, streams},
	{"close is reported last and once", closedLast, streams},
	{"abort resets", abortResets, streams},
	{"linger waits for the peer's FIN", lingers, streams},
	{"half close", halfClose, streams},
	{"suspend and resume", suspendResume, streams},
	{"a suspended datagram socket sends, and receives after Resume", suspendDatagrams, datagrams},
	{"a suspended socket that fails delivers what it has", suspendedFails, streams | waits},
	{"a stopped socket that is reset under a send delivers what it has", stoppedReset, streams},
	{"a closed socket touches no descriptor", closedTouchesNothing, datagrams},
	{"deadlines", deadlines, streams},

	{"send takes what fits, OUT follows", backPressure, streams},
	{"vectored send", vectored, 0},
	{"sent packets: SENT with the token, buffer home", sentPacket, streams},
	{"two large sends on one stream keep their order", largeSends, streams},
	{"sent datagrams", sentDatagrams, datagrams},
	{"close with sends under way", closeWithSends, streams},
	{"a file goes out whole, in order with packets", sendFile, streams},
	{"a file under way: deadline, close, abort, reset", sendFileBlocked, streams},
	{"what is no file, or a short one", sendFileRefused, streams},
	{"a warm send sends nothing", warm, datagrams},
	{"sending to a reset connection", sendAfterReset, streams},
	{"sends to an ended connection raise no SIGPIPE", sendWithoutSignal, streams},

	{"callback verdicts: drop, keep, hold", callbackVerdicts, 0},
	{"queue mode: IN and Receive", queueMode, 0},
	{"callback mode: the callback sees all, Receive gets what it kept", callbackMode, datagrams},
	{"what waits is taken whole, by a limit, in parts", receiveParts, datagrams},
	{"modes do not mix", modesDoNotMix, 0},
	{"a callback may close its socket", callbackCloses, datagrams},
	{"a callback that panics costs its connection", callbackPanics, streams},
	{"completions first, an error of Poll alone", errorsOfPoll, datagrams},
	{"an error that no Poll returned is Close's", errorsAtClose, datagrams},

	{"EMFILE with an empty backlog: the listener survives", descriptorLimit, streams},
	{"a ring belongs to one goroutine", oneOwner, 0},
	{"every method knows its caller", methodsKnowTheirCaller, 0},
	{"posted work", posted, 0},
	{"posted work may close the ring, not poll it", postedCloses, 0},
	{"wake by Wait", wakeByWait, 0},
	{"wake by FD", wakeByFD, 0},
	{"wake by deadline", wakeByDeadline, 0},
	{"a deadline that passed between two Polls", lateTurns, 0},
	{"ring allocation logics", allocation, datagrams | streams},
	{"when a socket has a ring", whenRings, 0},
	{"bad arguments are named", badArguments, 0},
	{"ring close with everything open", closeAll, streams},

	{"adopt a connection", adoptStream, streams},
	{"adopt an MPTCP connection", adoptMultipath, streams},
	{"adopt a connection that has ended", adoptEnded, streams},
	{"adopt takes SO_LINGER over", adoptLinger, streams},
	{"adopt a listener", adoptListener, streams},
	{"adopt a datagram socket", adoptDatagram, streams},
	{"adopt unix sockets", adoptUnix, streams},
	{"adopt refuses, and leaves all as it was", adoptErrors, streams},
	{"adopt refuses the descriptor of a socket", adoptTwice, streams},
	{"accepted connections may go elsewhere", acceptTo, streams},
	{"AcceptTo that panics costs its connection", acceptToPanics, streams},
	{"connections withheld go to AcceptTo at Resume", acceptToSuspended, streams},
	{"a connection goes to another owner", handOver, streams},
	{"unix: accept, echo, FIN", unixAccept, streams},
	{"unix: dial", unixDial, streams},
	{"unix: ends", unixEnds, streams},
	{"the buffers of a connection may change class", changingClass, streams},
	{"a connection into large buffers ends as any other", endingLarge, streams},
	{"unix: the end that comes together with data", unixEndWithData, streams},
	{"unix: files", unixFiles, streams},
	{"unix: what it has not is refused", unixRefuses, streams},
	{"unix: AcceptTo", unixAcceptTo, streams},
	{"no allocation on the path", noAllocation, datagrams | streams},
}

// Run runs the contract over one kind of ring: the whole of it, or what is about datagrams, or what is about streams.
func Run(t *testing.T, b Backend) {
	for name := range b.Without {
		if !slices.ContainsFunc(cases, func(c contractCase) bool { return c.name == name }) {
			t.Errorf("Without: no case is named %q", name)
		}
	}
	for _, c := range cases {
		if b.Datagrams && c.needs&streams != 0 || b.Streams && c.needs&datagrams != 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			if why := kernelAlone[c.name]; why != "" && b.Open != nil && !slices.Contains(b.Has, why) {
				t.Skipf("only the kernel's sockets have it: %s", why)
			}
			if why := b.Without[c.name]; why != "" {
				t.Skip(why)
			}
			if c.needs&waits != 0 {
				t.Parallel()
			}
			c.run(t, b)
		})
	}
}
