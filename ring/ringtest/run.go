package ringtest

import "testing"

// cases is the contract. Names say what must hold.
var cases = []struct {
	name string
	run  func(*testing.T, Backend)
}{
	{"capabilities are asserted both ways", capabilities},

	{"datagram: PACKET alone, with addresses", datagram},
	{"datagram over IPv6", datagram6},
	{"stream data: PACKET alone", streamData},
	{"new connection: listener, peer, user data", newConnection},
	{"new connection and its data in one batch", newConnectionWithData},
	{"thousands of children", thousands},
	{"a connection that was busy ends as any other", busyConnection},
	{"connect done: OUT", connectDone},
	{"connect refused: IN|ERR|HUP", connectRefused},
	{"connect times out: IN|HUP", connectTimeout},
	{"FIN: IN|RDHUP, after the data", fin},
	{"reset: IN|ERR|HUP|RDHUP", reset},
	{"reset after FIN is reported", resetAfterFin},
	{"keepalive death: IN|HUP", keepaliveDeath},
	{"retransmission time-out: IN|HUP", retransmissionTimeout},
	{"a window that stays shut: IN|HUP", shutWindow},
	{"ICMP error of a datagram socket: ERR, the socket lives", datagramError},

	{"a slice of length 1 loses nothing", sliceOfOne},
	{"user data is latched when the event is raised", userDataLatch},
	{"user data set on a new connection is on all that follows", userDataOnNewConnection},
	{"packets queue and keep their order", packetsQueue},
	{"a zero-length datagram, then a normal one", zeroLength},
	{"65,507 bytes", largestDatagram},
	{"a datagram is never cut silently", truncated},
	{"multicast reaches every member", multicast},
	{"source-specific multicast", sourceSpecific},
	{"timestamps when asked for", timestamps},

	{"pool exhaustion and recovery", exhaustion},
	{"one holder against the others", oneHolder},
	{"budget stops and resumes reading", budget},
	{"many stopped sockets let the ring sleep", manyStopped},
	{"release from another goroutine", releaseElsewhere},
	{"double release is an error", doubleRelease},
	{"close with packets held", closeWithHeld},

	{"close while a receive is armed: FIN leaves at once", closeSendsFin},
	{"data sent just before close arrives", dataBeforeClose},
	{"close is reported last and once", closedLast},
	{"abort resets", abortResets},
	{"linger waits for the peer's FIN", lingers},
	{"half close", halfClose},
	{"suspend and resume", suspendResume},
	{"a suspended socket that fails delivers what it has", suspendedFails},
	{"a stopped socket that is reset under a send delivers what it has", stoppedReset},
	{"a closed socket touches no descriptor", closedTouchesNothing},
	{"deadlines", deadlines},

	{"send takes what fits, OUT follows", backPressure},
	{"vectored send", vectored},
	{"sent packets: SENT with the token, buffer home", sentPacket},
	{"two large sends on one stream keep their order", largeSends},
	{"sent datagrams", sentDatagrams},
	{"close with sends under way", closeWithSends},
	{"sending to a reset connection", sendAfterReset},

	{"hook verdicts: drop, keep, hold", hookVerdicts},
	{"queue mode: IN and Receive", queueMode},
	{"callback mode: the hook sees all, Receive gets what it kept", callbackMode},
	{"modes do not mix", modesDoNotMix},
	{"a hook may close its socket", hookCloses},
	{"a hook that panics costs its connection", hookPanics},

	{"EMFILE with an empty backlog: the listener survives", descriptorLimit},
	{"a ring belongs to one goroutine", oneOwner},
	{"posted work", posted},
	{"posted work may close the ring, not poll it", postedCloses},
	{"wake by Wait", wakeByWait},
	{"wake by FD", wakeByFD},
	{"wake by deadline", wakeByDeadline},
	{"wake by a returned buffer", wakeByReturnedBuffer},
	{"ring allocation logics", allocation},
	{"when a socket has a ring", whenRings},
	{"bad arguments are named", badArguments},
	{"ring close with everything open", closeAll},

	{"adopt a connection", adoptStream},
	{"adopt an MPTCP connection", adoptMultipath},
	{"adopt a connection that has ended", adoptEnded},
	{"adopt takes SO_LINGER over", adoptLinger},
	{"adopt a listener", adoptListener},
	{"adopt a datagram socket", adoptDatagram},
	{"adopt unix sockets", adoptUnix},
	{"adopt refuses, and leaves all as it was", adoptErrors},
	{"accepted connections may go elsewhere", acceptTo},
	{"AcceptTo that panics costs its connection", acceptToPanics},
	{"connections withheld go to AcceptTo at Resume", acceptToSuspended},
	{"a connection goes to another owner", handOver},
	{"unix: accept, echo, FIN", unixAccept},
	{"unix: dial", unixDial},
	{"unix: ends", unixEnds},
	{"unix: the end that comes together with data", unixEndWithData},
	{"unix: files", unixFiles},
	{"unix: what it has not is refused", unixRefuses},
	{"unix: AcceptTo", unixAcceptTo},
	{"no allocation on the path", noAllocation},
}

// Run runs the whole contract over one kind of ring.
func Run(t *testing.T, b Backend) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(t, b) })
	}
}
