package xtreme

import (
	"time"

	"github.com/socketxtreme/socketxtreme/ring"
)

// EventTxTimestamp is the event of TxTimestamps.
const EventTxTimestamp = ring.EventTxTimestamp

// HardwareTimestamps asks for the network card's stamps beside the kernel's, which it includes (Timestamps), and says what is made of them; tai is
// how far TAI is ahead of the Unix clock for ring.HardwareTimestampsPTP, 0 for what the kernel knows. Where the card of the socket's interface does
// not stamp, the kernel's stamps stay and the path says why. It has the last word over the setting: ring.HardwareTimestampsOff leaves the card
// alone. (VMA: SO_TIMESTAMPING and VMA_HW_TS_CONVERSION.)
func HardwareTimestamps(c ring.HardwareTimestamps, tai time.Duration) Option {
	return option("HardwareTimestamps", forUDP, func(o *options) {
		o.socket.HardwareTimestamps, o.socket.TAIOffset, o.socket.Timestamps = c, tai, true
		o.hardwareTimestamps = true
	})
}

// TxTimestamps asks for a Stamped completion for each datagram that was sent: Completion.Time says when it left, Completion.Token which
// it was: what SendPacket was given, or the number of the datagram, counted from 0. A ring that cannot tell refuses the socket
// with the reason (ring.CapTxTimestamps). Not for streams. (VMA refuses SOF_TIMESTAMPING_TX_*.)
func TxTimestamps() Option {
	return option("TxTimestamps", forUDP, func(o *options) { o.socket.TxTimestamps = true })
}
