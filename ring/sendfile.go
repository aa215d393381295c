package ring

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"syscall"
)

// A file goes into a stream without a copy through user space, by a transport that can (FileSender). It stands in the socket's send queue as
// packets do, and the core itself has it sent, on every kernel ring alike: the driver finds nothing to take while a file is first, and is asked
// again when it is gone. Where the transport's queue is full, or a turn's share is sent, the driver is asked for Writable.

// fileShare is how much of a file one turn sends, so that one with a quick peer does not keep the others waiting.
const fileShare = 256 << 10

// outFile is a file that was given to SendFile and is not sent.
type outFile struct {
	ref        FileRef
	off        int64
	left, sent int64
}

// outFiles are those of a socket, in the order of their records.
type outFiles struct {
	sender  FileSender
	list    []outFile
	blocked bool // Writable follows
}

// FileError is how far a file came that was not sent whole.
type FileError struct {
	Sent int64 // bytes that the kernel had taken
	Err  error // io.ErrUnexpectedEOF: the file is shorter than what was to be sent
}

// Error is the failure in a sentence.
func (e *FileError) Error() string { return fmt.Sprintf("after %d bytes: %v", e.Sent, e.Err) }

// Unwrap gives the cause.
func (e *FileError) Unwrap() error { return e.Err }

// The reasons why a file cannot be sent.
var (
	fileDatagram = &FeatureError{Feature: "a file over a datagram socket, whose sends are messages", Code: "sendfile.datagram"}
	fileOwnStack = &FeatureError{Feature: "a file over a stack of our own, which the kernel cannot give its pages to", Code: "sendfile.own_stack"}
)

// SendFile sends n bytes of a regular file from an offset on, over a stream, in order with what SendPacket and Send are given, and without
// copying them through user space (sendfile(2)); n of -1 is all to the file's present end. All of it is taken over or, on an error, nothing.
// Sending begins at once and goes on with the Polls that follow, at most 256 KiB in each; while it lasts Send takes nothing.
//
// EventSent with the token follows when the kernel has taken all of it. Its Err, if any, wraps a *FileError, which says how much was sent;
// what was queued behind the file goes out all the same, but on a connection that is broken. The file is the caller's and may be closed at
// once. Its pages are sent as they are when they leave: do not write to them before the peer has them. After Close the file goes on for as
// long as the peer takes some of it within Config.CloseTimeout.
//
// Reading a file that is not in memory waits for the disk. Streams of kernel rings; owner only.
func (s *Socket) SendFile(f *os.File, off, n int64, token uint64) error {
	if r := s.ring(); r == nil || !r.isOwner() {
		return s.refuseSend("send file")
	}
	if s.state != stateOpen || s.closeWriteCalled {
		return s.cannotSend("send file")
	}
	switch {
	case s.handle.Kind != KindStream:
		return &OpError{Op: "send file", Err: fileDatagram}
	case off < 0:
		return badArgument("send file", "offset", off)
	case n < -1:
		return badArgument("send file", "number of bytes", n)
	}
	if int(s.active().sending.waiting.n)+s.active().sending.inflight >= s.config().SendQueue {
		s.wantOut = true
		return s.tracedRefusal("send file", netip.AddrPort{}, ErrWouldBlock)
	}
	sender, ok := s.transport().(FileSender)
	if !ok {
		return s.tracedRefusal("send file", netip.AddrPort{}, &OpError{Op: "send file", Err: fileOwnStack})
	}
	ref, size, err := sender.OpenFile(f)
	if err != nil {
		return s.tracedRefusal("send file", netip.AddrPort{}, &OpError{Op: "send file", Err: err})
	}
	if n < 0 {
		n = max(size-off, 0)
	}
	if r := s.ring(); r.tracing != TraceOff {
		r.tracePacket(&Traced{What: "send file", Socket: s, Length: int(n), Token: token})
	}
	if s.active().files == nil {
		s.activate().files = &outFiles{}
	}
	s.activate().files.sender = sender
	s.activate().files.list = append(s.activate().files.list, outFile{ref: ref, off: off, left: n})
	s.activate().sending.waiting.push(&s.ring().slab, record{file: true, token: token})
	s.sendFiles()
	return nil
}

// fileFirst reports whether a file is what is to be sent next, and nothing before it is still on its way.
func (s *Socket) fileFirst() bool {
	q := &s.active().sending
	return s.active().files != nil && q.waiting.n > 0 && q.inflight == 0 && s.ring().slab.at(q.waiting.head).file
}

// sendFiles sends what may be sent now of the files at the head of the send queue, and then lets the driver send the packets behind them.
// done: at least one file has ended, and onSendsDone was called.
func (s *Socket) sendFiles() (done bool) {
	if s.active().files == nil || s.active().files.blocked {
		return false
	}
	for share := int64(fileShare); s.fileFirst(); done = true {
		x := &s.active().files.list[0]
		before := x.sent
		err, more := s.sendPart(x, &share)
		if x.sent > before && s.state == stateClosing { // Close waits for as long as the peer takes something: a file may be long
			s.setTimer(timerClose, s.ring().clock().Add(s.config().CloseTimeout))
		}
		if more {
			if err = s.awaitFile(); err == nil {
				return false
			}
		}
		s.fileDone(err)
	}
	if done {
		if s.active().sending.hasWaiting() && s.active().sending.inflight == 0 {
			s.transmit()
		}
		s.onSendsDone()
	}
	return done
}

// sendPart sends of file x until it is done, fails with err, or the transport's queue or the turn's share is used up (more).
func (s *Socket) sendPart(x *outFile, share *int64) (err error, more bool) {
	for x.left > 0 {
		switch {
		case s.state == stateDead:
			return cmp.Or(s.active().fatal, ErrClosed), false
		case *share == 0:
			return nil, true
		}
		n, e := s.active().files.sender.SendFile(s, x.ref, &x.off, int(min(x.left, *share)))
		switch {
		case e == syscall.EAGAIN:
			return nil, true
		case e == syscall.EINTR:
			*share-- // bounds how often this can be
			continue
		case e != 0:
			return e, false
		case n == 0:
			return io.ErrUnexpectedEOF, false
		}
		x.left -= int64(n)
		x.sent += int64(n)
		*share -= int64(n)
		s.countSends(0, n)
	}
	return nil, false
}

// awaitFile asks the driver for a Writable fact, with which the file at the head of the queue goes on. With an error none will come: the file
// fails.
func (s *Socket) awaitFile() error {
	err := s.ring().drv.NotifyWritable(s)
	s.activate().files.blocked = err == nil
	return err
}

// fileDone takes the first file off the send queue and queues its EventSent; err is why it was not sent whole.
func (s *Socket) fileDone(err error) {
	x := s.active().files.list[0]
	s.activate().files.list = append(s.activate().files.list[:0], s.activate().files.list[1:]...)
	s.active().files.sender.CloseFile(x.ref)
	q := &s.active().sending.waiting
	token := s.ring().slab.at(q.head).token
	q.pop(&s.ring().slab)
	var e syscall.Errno
	switch {
	case err == nil:
		s.countSends(1, 0)
	case errors.As(err, &e):
		e = normalise(e)
		err = e
		fallthrough
	default:
		s.activate().counts.SendErrors++
		err = &OpError{Op: "send file", Addr: s.remote(), Err: &FileError{Sent: x.sent, Err: err}}
	}
	s.activate().done.push(&s.ring().slab, record{sent: true, token: token, err: err})
	s.makeReady()
	if s.state == stateOpen && endsConnection(e) {
		s.noteSendBroken(e)
	}
}

// fileWritable goes on with a file that waited for the socket, and reports whether one did.
func (s *Socket) fileWritable() bool {
	if s.active().files == nil || !s.active().files.blocked {
		return false
	}
	s.activate().files.blocked = false
	if s.state < stateGone {
		s.sendFiles()
	}
	return true
}

// filesFailed is called when the connection has ended: sendFiles then fails each file, those behind packets when the driver has returned these.
func (s *Socket) filesFailed() {
	if s.active().files != nil {
		s.activate().files.blocked = false
		s.sendFiles()
	}
}
