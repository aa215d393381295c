// Framed is the smallest useful gnet server on a ring: a codec of length-prefixed frames, and an answer to each frame.
//
//	go run ./examples/framed -listen tcp://127.0.0.1:9000
//
// A frame is a length of 4 bytes, big-endian, and so many bytes of payload. The answer is the frame itself. The code is written for
// gnet v2; only its import is another.
package main

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/socketxtreme/socketxtreme/reactor/gnet" // was github.com/panjf2000/gnet/v2
)

const (
	headerLen  = 4
	maxPayload = 1 << 20 // a peer that announces more is disconnected before it can fill the memory
)

var errTooLong = errors.New("frame too long")

// server is the handler. It has no state, so that any number of event loops can share it.
type server struct{ gnet.BuiltinEventEngine }

// OnTraffic is called when bytes have arrived: a part of a frame, one frame, or many.
func (*server) OnTraffic(c gnet.Conn) gnet.Action {
	for {
		frame, err := peekFrame(c)
		if errors.Is(err, io.ErrShortBuffer) {
			return gnet.None // what has come stays where it is; the next bytes are another call
		}
		if err != nil {
			log.Printf("%v: %v", c.RemoteAddr(), err)
			return gnet.Close
		}
		if _, err := c.Write(frame); err != nil {
			return gnet.Close
		}
		if _, err := c.Discard(len(frame)); err != nil {
			return gnet.Close
		}
	}
}

// peekFrame returns the next frame with its header, without taking it. It is io.ErrShortBuffer while the frame is not complete. The bytes
// are the ring's own buffer: they are valid until the handler returns.
func peekFrame(c gnet.Conn) ([]byte, error) {
	header, err := c.Peek(headerLen)
	if err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(header)
	if n > maxPayload {
		return nil, fmt.Errorf("%w: %d bytes, want at most %d", errTooLong, n, maxPayload)
	}
	return c.Peek(headerLen + int(n))
}

func main() {
	listen := flag.String("listen", "tcp://127.0.0.1:9000", "address as gnet writes it: tcp://HOST:PORT or unix://PATH")
	multicore := flag.Bool("multicore", true, "an event loop for each processor")
	if flag.Parse(); flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if !strings.Contains(*listen, "://") {
		log.Fatalf("-listen %s: want an address as tcp://127.0.0.1:9000 or unix:///run/frames", *listen)
	}
	log.Printf("frames on %s", *listen)
	log.Fatal(gnet.Run(&server{}, *listen, gnet.WithMulticore(*multicore)))
}
