// Zero-copy-receive takes a TCP stream out of the ring's buffers without copying, and prints the checksum of what was sent and of what
// came.
//
//	go run ./examples/zero-copy-receive                 # 256 MiB over loopback
//	go run ./examples/zero-copy-receive -ring epoll -mib 1024
//
// The socket is in pull mode: packets wait on it, Poll says so, RecvFromZeroCopy takes them.
//
//	kernel uring
//	zero-copy-receive: partly: the kernel copies each packet once, into the ring's buffer; … [os.kernel_copy]
//	sent     268435456 bytes, sha256 5c1b…
//	received 268435456 bytes, sha256 5c1b… in 4242 packets
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	extraapi "github.com/socketxtreme/socketxtreme/extra_api"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

func main() {
	c, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case err != nil:
		fmt.Fprintln(os.Stderr, "zero-copy-receive:", err)
		os.Exit(2)
	}
	if err := run(c, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "zero-copy-receive:", err)
		os.Exit(1)
	}
}

type config struct {
	kind conf.RingKind
	mib  int
}

// parse reads the command line.
func parse(args []string) (c config, err error) {
	f := flag.NewFlagSet("zero-copy-receive", flag.ContinueOnError)
	kind := f.String("ring", string(conf.FromEnvironment().Ring), "kind of ring: auto, uring or epoll")
	f.IntVar(&c.mib, "mib", 256, "length of the stream in MiB")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	if f.NArg() > 0 {
		return c, fmt.Errorf("argument %q: only flags are known", f.Arg(0))
	}
	if c.mib < 1 {
		return c, fmt.Errorf("-mib %d: want 1 or more", c.mib)
	}
	if c.kind, err = conf.ParseRingKind(*kind); err != nil {
		return c, fmt.Errorf("-ring: %w", err)
	}
	return c, nil
}

// run opens an engine and a poller and runs the example on them.
func run(c config, out io.Writer) error {
	settings := conf.FromEnvironment()
	settings.Ring = c.kind
	engine, err := xtreme.New(settings)
	if err != nil {
		return err
	}
	poller, err := engine.NewPoller("zero-copy-receive", xtreme.PollerConfig{})
	if err != nil {
		return errors.Join(err, engine.Close())
	}
	return errors.Join(transfer(poller, c.mib<<20, out), poller.Close(), engine.Close())
}

// stream is what one end saw.
type stream struct {
	hash    hash.Hash
	bytes   int
	packets int
	err     error
}

// transfer sends size bytes over a connection and receives them without copying; it prints both checksums.
func transfer(poller *xtreme.Poller, size int, out io.Writer) error {
	listener, err := poller.ListenTCP(netip.MustParseAddrPort("127.0.0.1:0"), xtreme.ListenConfig{SocketConfig: extraapi.Pull(), LargeStream: true})
	if err != nil {
		return err
	}
	sent := make(chan stream, 1)
	go func() { sent <- send(listener.LocalAddr().String(), size) }()
	received := receive(poller, out)
	source := <-sent
	if err := errors.Join(source.err, received.err); err != nil {
		return err
	}
	fmt.Fprintf(out, "sent     %d bytes, sha256 %x\n", source.bytes, source.hash.Sum(nil))
	fmt.Fprintf(out, "received %d bytes, sha256 %x in %d packets\n", received.bytes, received.hash.Sum(nil), received.packets)
	if source.bytes != received.bytes || string(source.hash.Sum(nil)) != string(received.hash.Sum(nil)) {
		return errors.New("they differ")
	}
	return nil
}

// receive takes a connection's data until its end.
func receive(poller *xtreme.Poller, out io.Writer) stream {
	s := stream{hash: sha256.New()}
	var connection *xtreme.Socket
	var done [64]xtreme.Completion
	for limit := time.Now().Add(10 * time.Minute); ; {
		if time.Now().After(limit) {
			s.err = errors.New("no end of the stream after 10 minutes")
			return s
		}
		n, err := poller.Poll(done[:])
		if err != nil {
			s.err = err
			return s
		}
		for i := range done[:n] {
			if c := &done[i]; c.Events.Has(xtreme.EventNewConnection) {
				connection = c.Socket
				about, err := extraapi.Query(connection, extraapi.ZeroCopyReceive)
				if err != nil {
					s.err = err
					return s
				}
				fmt.Fprintf(out, "%v\n%v\n", connection.Path(), about)
			}
		}
		if connection == nil {
			continue
		}
		switch end, err := s.take(connection, done[:]); {
		case err != nil:
			s.err = err
			return s
		case end:
			return s
		}
		if n == 0 {
			if s.err = poller.WaitFor(time.Second); s.err != nil {
				return s
			}
		}
	}
}

// take takes all that waits; done is for it to use.
func (s *stream) take(connection *xtreme.Socket, done []xtreme.Completion) (end bool, err error) {
	for {
		n, bytes, err := extraapi.RecvFromZeroCopy(connection, done, 0, 0)
		switch {
		case err == io.EOF:
			return true, nil
		case errors.Is(err, unix.EAGAIN):
			return false, nil
		case err != nil:
			return false, err
		}
		for i := range done[:n] {
			for piece := range done[i].Packet.Segments() {
				_, _ = s.hash.Write(piece)
			}
		}
		s.bytes += bytes
		s.packets += n
		if _, err := extraapi.FreeCompletions(connection, done[:n]); err != nil {
			return false, err
		}
	}
}

// send writes random bytes.
func send(address string, size int) stream {
	s := stream{hash: sha256.New()}
	c, err := net.Dial("tcp", address)
	if err != nil {
		s.err = err
		return s
	}
	defer c.Close()
	random := rand.NewChaCha8([32]byte{})
	for b := make([]byte, 1<<16); s.bytes < size; s.bytes += len(b) {
		b = b[:min(len(b), size-s.bytes)]
		_, _ = random.Read(b)
		_, _ = s.hash.Write(b)
		if _, s.err = c.Write(b); s.err != nil {
			return s
		}
	}
	return s
}
