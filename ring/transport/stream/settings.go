package stream

import (
	"syscall"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// settingsOf are the settings of a socket that listens or connects: those of the driver, and what the application has said of it.
func (t *Transport) settingsOf(s *ring.Socket) tcp.Settings {
	settings := t.settings
	for _, x := range ring.OptionsOf(s).Stream {
		_ = setOption(&settings, x.Option, x.Value) // what has no meaning for TCP the transport below has heeded
	}
	return settings
}

// setOption changes settings as an option says. What the transport below has to keep, which is what concerns ports, is no setting.
func setOption(x *tcp.Settings, o ring.Option, value int) error {
	switch o {
	case ring.OptionNoDelay:
		x.NoDelay = value != 0
	case ring.OptionQuickAck:
		x.QuickAck = value != 0
	case ring.OptionKeepAlive:
		x.KeepAlive = value != 0
	case ring.OptionKeepAliveIdle:
		x.KeepIdle = clock.Duration(value) * clock.Second
	case ring.OptionKeepAliveInterval:
		x.KeepInterval = clock.Duration(value) * clock.Second
	case ring.OptionKeepAliveCount:
		x.KeepCount = uint8(min(value, 255))
	case ring.OptionUserTimeout:
		x.UserTimeout = clock.Duration(value) * clock.Millisecond
	case ring.OptionReceiveBuffer:
		x.ReceiveBuffer = min(value, maxBuffer)
	case ring.OptionSendBuffer:
		x.SendBuffer = min(value, maxBuffer)
	case ring.OptionTTL:
		x.TTL = uint8(value)
	case ring.OptionTOS:
		x.TOS = uint8(value) &^ 3 // the lowest bits are ECN's (RFC 3168)
	case ring.OptionReuseAddr, ring.OptionReusePort:
	case ring.OptionPacingRate:
		return NoPacing()
	default:
		return syscall.ENOPROTOOPT
	}
	return nil
}

// maxBuffer is the largest window (RFC 7323 section 2.2).
const maxBuffer = 1 << 30

// NoPacing is the reason why streams of the stack have no rate.
func NoPacing() error {
	return &ring.FeatureError{Feature: "pacing of TCP over this stack, which has no queue with a rate", Code: "tcp.no_pacing"}
}
