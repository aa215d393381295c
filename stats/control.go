package stats

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A process answers on a unix-domain socket beside its file: a request is one line of JSON, the answer one line of JSON and what the request's
// handler writes. Peers of another user than the process's own and root are refused.

const (
	controlSuffix  = ".sock"
	controlTimeout = 5 * time.Second
	requestMax     = 64 << 10
)

// Request is what a peer asks for.
type Request struct {
	Do   string          `json:"do"`
	With json.RawMessage `json:"with,omitempty"` // arguments, as the handler has them
}

type answer struct {
	Error string `json:"error,omitempty"`
}

// Handler does what a request asks for. It writes its answer to w; with an error before the first byte the peer gets the error instead.
type Handler func(with json.RawMessage, w io.Writer) error

// Control is the control socket of a file.
type Control struct {
	listener *net.UnixListener
	path     string
	handlers map[string]Handler
	refused  func(error)

	mu    sync.Mutex
	open  map[*net.UnixConn]struct{}
	ended bool
	done  sync.WaitGroup
}

// Serve opens the file's control socket, with a handler for each request; "zero" is there already. refused, unless it is nil, is called
// with the error of each peer or request that was refused.
func (f *File) Serve(handlers map[string]Handler, refused func(error)) (*Control, error) {
	path := f.path + controlSuffix
	address, release, err := socketAddress(path)
	if err != nil {
		return nil, fmt.Errorf("stats: control socket: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: address, Net: "unix"})
	release()
	if err != nil {
		return nil, fmt.Errorf("stats: control socket %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false) // it would remove the file by the address
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("stats: control socket: %w", err), l.Close(), os.Remove(path))
	}
	if refused == nil {
		refused = func(error) {}
	}
	c := &Control{listener: l, path: path, refused: refused, open: map[*net.UnixConn]struct{}{}, handlers: map[string]Handler{"zero": f.zero}}
	for name, h := range handlers {
		c.handlers[name] = h
	}
	c.done.Go(c.accept)
	return c, nil
}

// Close ends the socket and waits for what is under way.
func (c *Control) Close() error {
	c.mu.Lock()
	c.ended = true
	for conn := range c.open {
		_ = conn.Close()
	}
	c.mu.Unlock()
	err := c.listener.Close()
	if e := os.Remove(c.path); !errors.Is(e, fs.ErrNotExist) { // as net.UnixListener does: a file that is gone is no error
		err = errors.Join(err, e)
	}
	c.done.Wait()
	return err
}

// maxSocketPath is the longest path of a unix-domain socket: sun_path of unix(7) has 108 bytes with the NUL.
const maxSocketPath = 107

// socketAddress is the address to bind or connect a unix-domain socket of this path with: the path itself, or one by a descriptor of its
// directory where the path does not fit in an address. The address is valid until release is called.
func socketAddress(path string) (address string, release func(), err error) {
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	fd, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, fmt.Errorf("open %s: %w", filepath.Dir(path), err)
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", fd, filepath.Base(path)), func() { _ = unix.Close(fd) }, nil
}

// accept is the goroutine of the control socket: it accepts connections until Close and serves each in a goroutine of its own.
func (c *Control) accept() {
	for {
		conn, err := c.listener.AcceptUnix()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			c.refused(err)
			time.Sleep(100 * time.Millisecond) // no descriptors, perhaps
			continue
		}
		c.mu.Lock()
		if c.ended {
			c.mu.Unlock()
			_ = conn.Close()
			return
		}
		c.open[conn] = struct{}{}
		c.done.Go(func() { c.serve(conn) })
		c.mu.Unlock()
	}
}

// serve answers the one request of a connection and closes it. An error is reported to refused, and to the peer if nothing was written yet.
func (c *Control) serve(conn *net.UnixConn) {
	defer func() {
		c.mu.Lock()
		delete(c.open, conn)
		c.mu.Unlock()
		_ = conn.Close()
	}()
	w := &answerWriter{conn: conn}
	err := c.answer(conn, w)
	if err != nil {
		c.refused(err)
	}
	if !w.begun {
		a := answer{}
		if err != nil {
			a.Error = err.Error()
		}
		w.begin(a)
	}
}

// answer checks the peer's user, reads a request and runs its handler, which writes to w. Error: errors.ErrUnsupported for a request that has
// no handler.
func (c *Control) answer(conn *net.UnixConn, w io.Writer) error {
	if err := mayAsk(conn); err != nil {
		return err
	}
	_ = conn.SetReadDeadline(time.Now().Add(controlTimeout))
	line, err := bufio.NewReader(io.LimitReader(conn, requestMax)).ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("request: %w", err)
	}
	var q Request
	if err := json.Unmarshal(line, &q); err != nil {
		return fmt.Errorf("request: %w", err)
	}
	h := c.handlers[q.Do]
	if h == nil {
		return fmt.Errorf("request %q: %w", q.Do, errors.ErrUnsupported)
	}
	return h(q.With, w)
}

// mayAsk is nil for a peer that is root or the process's own user, else unix.EPERM.
func mayAsk(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	if e := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); e != nil {
		return e
	}
	if err != nil {
		return fmt.Errorf("peer's credentials: %w", err)
	}
	if peer.Uid != 0 && int(peer.Uid) != os.Geteuid() {
		return fmt.Errorf("user %d may not control a process of user %d: %w", peer.Uid, os.Geteuid(), unix.EPERM)
	}
	return nil
}

// answerWriter writes a handler's answer to the peer. The line with the answer's error, empty for success, goes before the first byte.
type answerWriter struct {
	conn  net.Conn
	begun bool
}

// begin writes the first line. A peer that is gone is no error.
func (w *answerWriter) begin(a answer) {
	w.begun = true
	text, _ := json.Marshal(a)
	_ = w.conn.SetWriteDeadline(time.Now().Add(controlTimeout))
	_, _ = w.conn.Write(append(text, '\n'))
}

// Write writes a part of the answer to the peer, after the line of success if nothing was written before.
func (w *answerWriter) Write(b []byte) (int, error) {
	if !w.begun {
		w.begin(answer{})
	}
	_ = w.conn.SetWriteDeadline(time.Now().Add(controlTimeout))
	return w.conn.Write(b)
}

// Ask sends a request to the process of a file, and returns what the answer consists of, to be read and closed.
func (r *Reader) Ask(do string, with any) (io.ReadCloser, error) {
	fail := func(err error) (io.ReadCloser, error) {
		return nil, fmt.Errorf("stats: ask %s to %s: %w", r.path, do, err)
	}
	if r.description.Control == "" {
		return fail(errors.New("the process has no control socket"))
	}
	if live, err := r.Live(); err != nil || !live {
		return fail(errors.Join(err, errors.New("the process has ended")))
	}
	address, release, err := socketAddress(filepath.Join(filepath.Dir(r.path), filepath.Base(r.description.Control)))
	if err != nil {
		return fail(err)
	}
	conn, err := net.DialTimeout("unix", address, controlTimeout)
	release()
	if err != nil {
		return fail(err)
	}
	q := Request{Do: do}
	if with != nil {
		if q.With, err = json.Marshal(with); err != nil {
			return fail(errors.Join(err, conn.Close()))
		}
	}
	line, err := json.Marshal(q)
	if err == nil {
		_ = conn.SetDeadline(time.Now().Add(2 * controlTimeout))
		_, err = conn.Write(append(line, '\n'))
	}
	if err != nil && !errors.Is(err, unix.EPIPE) { // a peer that was refused may have closed: its answer tells
		return fail(errors.Join(err, conn.Close()))
	}
	in := bufio.NewReader(conn)
	line, err = in.ReadBytes('\n')
	var a answer
	if err == nil {
		err = json.Unmarshal(line, &a)
	}
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	if err != nil {
		return fail(errors.Join(err, conn.Close()))
	}
	_ = conn.SetDeadline(time.Time{}) // the answer may be one that goes on, as a live capture does
	return struct {
		io.Reader
		io.Closer
	}{in, conn}, nil
}
