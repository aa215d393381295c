package xtreme_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// capturedFrame is a UDP datagram of a capture.
type capturedFrame struct {
	from, to, text string
	out            bool
}

// readCapture reads the datagrams of a capture, and checks that their sums are right where they are whole.
func (w *cabled) readCapture(path string) (list []capturedFrame) {
	file, err := os.Open(path)
	w.NoError(err)
	defer file.Close()
	r, err := pcapgo.NewNgReader(file, pcapgo.DefaultNgReaderOptions)
	w.NoError(err)
	for {
		b, _, opts, err := r.ReadPacketDataWithOptions()
		if errors.Is(err, io.EOF) {
			return list
		}
		w.NoError(err)
		p := gopacket.NewPacket(bytes.Clone(b), layers.LayerTypeEthernet, gopacket.Default)
		u, ok := p.TransportLayer().(*layers.UDP)
		w.True(ok, "%v", p)
		ip := p.NetworkLayer().(*layers.IPv4)
		list = append(list, capturedFrame{ip.SrcIP.String() + ":" + u.SrcPort.String(), ip.DstIP.String() + ":" + u.DstPort.String(),
			string(u.Payload), opts.Flags.Direction == pcapgo.NgEpbFlagDirectionOutbound})
	}
}

// SX_CAPTURE shows what the rings of an engine receive and send, which tcpdump on the interface does not see; sockets know that they are
// captured. Without it there is nothing between a ring and its links.
func TestCaptureOfAnOffloadedRing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "capture-%d.pcapng")
	w := newCabled(t)
	s := conf.Default()
	s.Ring, s.SmallBuffers, s.LargeBuffers, s.Offload.Capture = conf.RingOffload, 1024, 16, path
	engine, err := xtreme.New(s)
	w.NoError(err)
	poller, err := engine.NewPoller("captured", xtreme.PollerConfig{})
	w.NoError(err)
	x := w.other(poller)
	u := x.udp(w.at(0))
	w.Contains(codes(u.Path()), "link.captured")
	peer := w.net.Dial(u.LocalAddr())
	const rounds = 30
	for range rounds {
		answers(x, u, peer)
	}
	x.until("all is in the file", func() bool { return counter(u.Ring(), w.net.Device(0)+".capture.written") == 2*rounds })
	w.Zero(counter(u.Ring(), w.net.Device(0)+".capture.no_room"))
	x.close(u)
	w.NoError(poller.Close())
	w.NoError(engine.Close())

	matches, err := filepath.Glob(strings.Replace(path, "%d", "*", 1))
	w.NoError(err)
	w.Len(matches, 1)
	w.NotContains(matches[0], "%d")
	frames := w.readCapture(matches[0])
	w.Len(frames, 2*rounds)
	ours, theirs := u.LocalAddr().String(), peer.LocalAddr().String()
	for i, f := range frames {
		want := capturedFrame{theirs, ours, "to " + ours, false}
		if i%2 == 1 {
			want = capturedFrame{ours, theirs, "answer", true}
		}
		want.from, want.to = trimName(want.from), trimName(want.to)
		f.from, f.to = trimName(f.from), trimName(f.to)
		w.Equal(want, f)
	}

	plain := w.udp(w.at(0))
	w.NotContains(codes(plain.Path()), "link.captured")
	for _, c := range plain.Ring().Stats().Driver {
		w.NotContains(c.Name, ".capture.")
	}
	w.close(plain)
}

// trimName takes the name off a port: "7(echo)".
func trimName(a string) string {
	a, _, _ = strings.Cut(a, "(")
	return a
}

// An engine that closes while nobody reads its capture's pipe waits for a moment, and holds up nobody who asks it something meanwhile. A pipe
// without any reader is refused at once.
func TestACaptureThatNobodyReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	s := conf.Default()
	s.Ring, s.Offload.Capture, s.ExceptionHandling = conf.RingEpoll, path, 2
	_, err := xtreme.New(s)
	require.ErrorIs(t, err, unix.ENXIO)

	reader, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(reader)
	for err = nil; err == nil; { // as much as the pipe holds
		_, err = unix.Write(reader, make([]byte, 1<<16))
	}
	require.ErrorIs(t, err, unix.EAGAIN)
	e, err := xtreme.New(s)
	require.NoError(t, err)
	done := make(chan error, 2)
	for range 2 {
		go func() { done <- e.Close() }()
	}
	for _, want := range []error{xtreme.ErrClosed, os.ErrDeadlineExceeded} { // the second call does not wait for the first
		select {
		case err := <-done:
			require.ErrorIs(t, err, want)
			require.Empty(t, e.Pollers())
		case <-time.After(patience):
			t.Fatal("Close waits for a reader that does not read")
		}
	}
}

// One engine at a time writes a file: another one says that it captures nothing.
func TestOneEngineCapturesIntoAFile(t *testing.T) {
	var log bytes.Buffer
	s := conf.Default()
	s.Offload.Capture, s.Logger = filepath.Join(t.TempDir(), "capture"), slog.New(slog.NewTextHandler(&log, nil))
	for _, want := range []int{0, 1} {
		e, err := xtreme.New(s)
		require.NoError(t, err)
		defer func() { require.NoError(t, e.Close()) }()
		require.Equal(t, want, strings.Count(log.String(), "nothing is captured"), log.String())
	}
}

// A capture that cannot be written is told, and an error where VMA_EXCEPTION_HANDLING says so.
func TestACaptureThatCannotBe(t *testing.T) {
	w := newCabled(t)
	bad := func(s *conf.Settings) { s.Offload.Capture = "/nowhere/at all" }
	e := w.newEngine(bad)
	w.Contains(w.log.String(), "nothing is captured")
	w.NotNil(e)
	s := conf.Default()
	bad(&s)
	s.ExceptionHandling = 2
	_, err := xtreme.New(s)
	w.ErrorIs(err, os.ErrNotExist)
	w.ErrorContains(err, "SX_CAPTURE=/nowhere/at all")
}
