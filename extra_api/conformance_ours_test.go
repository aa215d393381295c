package extraapi_test

import (
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/socketxtreme/socketxtreme/buffers"
	extraapi "github.com/socketxtreme/socketxtreme/extra_api"
	"github.com/socketxtreme/socketxtreme/ring"
)

func sliceOfOne(w *world) {
	w.dst = make([]ring.Completion, 1)
	s, p := w.udp(), w.peer()
	for i := range 20 {
		p.write([]byte{byte(i)}, s.LocalAddr())
	}
	for i := range 20 {
		w.Equal(string([]byte{byte(i)}), w.text(s))
	}
}

func references(w *world) {
	s, p := w.udp(), w.peer()
	p.write([]byte("kept"), s.LocalAddr())
	c := w.event(s, ring.EventPacket)
	b := c.Packet.Buffer()
	w.NoError(b.Retain()) // socketxtreme_ref_vma_buff: in VMA one does not protect a UDP buffer
	_, err := extraapi.FreePackets(s, c.Packet)
	w.NoError(err)
	for i := range 50 { // what would overwrite a buffer that is free
		p.write([]byte(fmt.Sprintf("other %d", i)), s.LocalAddr())
		w.text(s)
	}
	w.Equal("kept", string(b.Bytes()))
	w.NoError(b.Release())
	w.ErrorIs(b.Release(), buffers.ErrStale)
	n, err := extraapi.FreePackets(s, c.Packet)
	w.Zero(n)
	w.ErrorIs(err, buffers.ErrStale)
}

func userDataLatch(w *world) {
	s, p := w.udp(), w.peer()
	s.SetUserData(1)
	w.NoError(s.Suspend())
	p.write([]byte("a"), s.LocalAddr())
	w.NoError(s.Resume())
	c := w.event(s, ring.EventPacket)
	w.Equal(uint64(1), c.UserData)
	w.NoError(c.Packet.Release())
	s.SetUserData(2)
	p.write([]byte("b"), s.LocalAddr())
	c = w.event(s, ring.EventPacket)
	w.Equal(uint64(2), c.UserData)
	w.NoError(c.Packet.Release())
}

// Data that is there when the connection is accepted comes with it or after it, never before. (issues/1153: a crash.)
func earlyData(w *world) {
	l := w.listen()
	w.NoError(l.Suspend())
	peer := w.dial(l)
	_, err := peer.Write([]byte("early"))
	w.NoError(err)
	w.NoError(l.Resume())
	c := w.accept(l)
	got := ""
	if c.Events.Has(ring.EventPacket) {
		got = string(c.Packet.Bytes())
		w.NoError(c.Packet.Release())
	}
	if got == "" {
		got = w.text(c.Socket)
	}
	w.Equal("early", got)
}

// In VMA of what becomes deliverable at once only the last 64 KiB survive.
func moreThan64K(w *world) {
	l := w.listen()
	s, peer := w.pair(l)
	w.NoError(s.Suspend())
	sent := make([]byte, 200_000)
	for i := range sent {
		sent[i] = byte(i ^ i>>8)
	}
	failed := make(chan error, 1)
	go func() { _, err := peer.Write(sent); failed <- err }()
	for range 100 {
		w.poll()
	}
	w.NoError(s.Resume())
	var got []byte
	for len(got) < len(sent) {
		c := w.event(s, ring.EventPacket)
		for b := range c.Packet.Segments() {
			got = append(got, b...)
		}
		w.NoError(c.Packet.Release())
	}
	w.NoError(<-failed)
	w.Equal(string(sent), string(got))
}

// Two packets that arrive while nobody polls: in VMA the second overwrites the first.
func twoPending(w *world) {
	s, p := w.udp(), w.peer()
	w.NoError(s.Suspend())
	for _, b := range []string{"first", "second", "third"} {
		p.write([]byte(b), s.LocalAddr())
		w.poll()
	}
	w.NoError(s.Resume())
	for _, b := range []string{"first", "second", "third"} {
		w.Equal(b, w.text(s))
	}
}

// Held packets exhaust what a socket may have; nothing is lost that was taken, and it goes on when they are freed.
func exhaustion(w *world) {
	s, p := w.udp(), w.peer()
	var held []buffers.Packet
	sent := 0
	w.until("the budget", func() bool {
		p.write([]byte{byte(sent)}, s.LocalAddr())
		sent++
		w.poll()
		for i := range w.kept {
			held = append(held, w.kept[i].Packet)
		}
		w.kept = nil
		return s.OverBudget() || s.Ring().Stats().Starved > 0 || sent > 4*defaultLayout.SmallCount
	})
	w.NotEmpty(held)
	before := len(held)
	freed, err := extraapi.FreePackets(s, held...)
	w.NoError(err)
	w.Equal(before, freed)
	w.until("packets again", func() bool {
		p.write([]byte("again"), s.LocalAddr())
		w.poll()
		return len(w.kept) > 0
	})
	ledger := s.Ring().Ledger()
	w.Equal(ledger.Total, ledger.Sum())
}

// Every member has the packet; in VMA all but the first have to recv() it.
func multicastMembers(w *world) {
	group := netip.MustParseAddr("239.255.77.1")
	device := "lo"
	if w.kind == "offload" {
		device = "mem0"
	}
	var members []*ring.Socket
	port := uint16(0)
	for range 3 {
		s := w.socket(ring.KindDatagram)
		w.NoError(s.SetReuseAddr(true))
		w.NoError(s.JoinGroup(group, device, netip.Addr{}))
		w.NoError(s.Bind(netip.AddrPortFrom(group, port)))
		port = s.LocalAddr().Port()
		members = append(members, s)
	}
	sender := w.socket(ring.KindDatagram)
	w.NoError(sender.SetMulticastInterface(device))
	w.NoError(sender.Bind(w.local))
	_, err := sender.SendTo([]byte("to all"), netip.AddrPortFrom(group, port))
	w.NoError(err)
	for _, s := range members {
		c := w.event(s, ring.EventPacket)
		w.Equal("to all", string(c.Packet.Bytes()))
		w.Equal(group, c.Destination.Addr())
		w.NoError(c.Packet.Release())
	}
}

// Packets outlive their socket: in VMA they leak, or are freed into it.
func closeWithHeld(w *world) {
	s, p := w.udp(), w.peer()
	p.write([]byte("orphan"), s.LocalAddr())
	c := w.event(s, ring.EventPacket)
	w.closed(s)
	w.Equal("orphan", string(c.Packet.Bytes()))
	freed, err := extraapi.FreePackets(s, c.Packet)
	w.NoError(err)
	w.Equal(1, freed)
	if w.kind == "offload" {
		return
	}
	l := w.listen(w.pull)
	child, peer := w.pair(l)
	_, err = peer.Write([]byte("stream"))
	w.NoError(err)
	w.event(child, ring.EventIn)
	dst := make([]ring.Completion, 1)
	_, _, err = extraapi.RecvFromZeroCopy(child, dst, 0, 0)
	w.NoError(err)
	w.closed(child)
	_, _, err = extraapi.RecvFromZeroCopy(child, dst, 0, 0)
	w.ErrorIs(err, ring.ErrClosed)
	w.Equal("stream", string(dst[0].Packet.Bytes()))
	freed, err = extraapi.FreeCompletions(child, dst)
	w.NoError(err)
	w.Equal(1, freed)
	w.NoError(peer.SetReadDeadline(time.Now().Add(patience)))
	_, err = peer.Read(make([]byte, 1))
	w.ErrorIs(err, io.EOF)
}
