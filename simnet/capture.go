package simnet

import (
	"fmt"
	"io"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// Capture writes all frames to out as pcapng, for Wireshark or tcpdump. Each line is two interfaces of the file: what was sent into it, and
// what arrived, so that losses and changes are seen. Lines made later are captured as well. It does not change the trace. Close ends it.
func (w *World) Capture(out io.Writer) error {
	if w.pcap != nil {
		return fmt.Errorf("simnet: capture: there is one already")
	}
	first := pcapgo.NgInterface{Name: "world", Description: fmt.Sprintf("seed %d", w.seed), LinkType: layers.LinkTypeEthernet}
	pcap, err := pcapgo.NewNgWriterInterface(out, first, pcapgo.DefaultNgWriterOptions)
	if err != nil {
		return fmt.Errorf("simnet: capture: %w", err)
	}
	w.pcap = pcap
	for _, l := range w.lines {
		w.addTaps(l)
	}
	return w.pcapErr
}

// addTaps adds the two interfaces of a line to the capture file, if there is one: frames that were sent, and frames that arrived.
func (w *World) addTaps(l *Line) {
	if w.pcap == nil {
		return
	}
	for i, what := range []string{"sent", "arrived"} {
		id, err := w.pcap.AddInterface(pcapgo.NgInterface{Name: l.name + " " + what, LinkType: layers.LinkTypeEthernet})
		if err != nil {
			w.badCapture(err)
		}
		l.taps[i] = id
	}
}

// writeTap writes a frame to the capture file as one of interface id, at the present virtual time.
func (w *World) writeTap(id int, b []byte) {
	if w.pcap == nil {
		return
	}
	ci := gopacket.CaptureInfo{Timestamp: time.Unix(0, epoch+w.now), CaptureLength: len(b), Length: len(b), InterfaceIndex: id}
	if err := w.pcap.WritePacket(ci, b); err != nil {
		w.badCapture(err)
	}
}

func (w *World) badCapture(err error) {
	if w.pcapErr == nil {
		w.pcapErr = fmt.Errorf("simnet: capture: %w", err)
	}
}
