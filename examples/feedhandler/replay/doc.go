// Package replay plays the sender's part: it sends the packets of a capture, or of a generator, on one or two lines,
// spoils them in ways that can be computed again by the check of the receiver, and answers recovery requests. It uses
// plain sockets, so that a receiver is tested against something that shares nothing with it but the protocols'
// encoders.
package replay
