package xtreme

import (
	"time"

	"github.com/socketxtreme/socketxtreme/ring"
)

// Stamped is the event of TransmitTime.
const Stamped = ring.EventStamp

// CardTime asks for the network card's stamps beside the kernel's, which it includes (Timestamps), and says what is made of them; tai is
// how far TAI is ahead of the Unix clock for ring.CardTimePTP, 0 for what the kernel knows. Where the card of the socket's interface does
// not stamp, the kernel's stamps stay and the path says why. It has the last word over the setting: ring.CardTimeOff leaves the card
// alone. (VMA: SO_TIMESTAMPING and VMA_HW_TS_CONVERSION.)
func CardTime(c ring.CardTime, tai time.Duration) Option {
	return option("CardTime", forUDP, func(o *options) {
		o.socket.CardTime, o.socket.TAIOffset, o.socket.Timestamps = c, tai, true
		o.cardTime = true
	})
}

// TransmitTime asks for a Stamped completion for each datagram that was sent: Completion.Time says when it left, Completion.Token which
// it was: what SendPacket was given, or the number of the datagram, counted from 0. A ring that cannot tell refuses the socket
// with the reason (ring.CapTransmitTime). Not for streams. (VMA refuses SOF_TIMESTAMPING_TX_*.)
func TransmitTime() Option {
	return option("TransmitTime", forUDP, func(o *options) { o.socket.TransmitTime = true })
}
