package tcp

import "errors"

// The errors of calls.
var (
	ErrInUse     = errors.New("tcp: address in use")
	ErrNoPort    = errors.New("tcp: no free port")
	ErrAddress   = errors.New("tcp: not an address of a connection") // RFC 9293 MUST-46
	ErrNoConn    = errors.New("tcp: no such connection")
	ErrClosed    = errors.New("tcp: closed for writing")
	ErrNotOpen   = errors.New("tcp: connection is not open")
	ErrFull      = errors.New("tcp: send buffer is full")
	ErrLimit     = errors.New("tcp: limit of connections reached")
	ErrSettings  = errors.New("tcp: settings out of range")
	ErrListening = errors.New("tcp: no such listener")
)
