package record

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// WriteOptions choose what is written.
type WriteOptions struct {
	Last   time.Duration   // only frames that are not older; 0: all
	Since  time.Time       // only frames from then on; zero: all
	Filter string          // as Config.Filter; empty: all frames
	For    time.Duration   // of Stream: it ends after that; 0: with done
	Limit  int64           // bytes, about; 0: none
	Done   <-chan struct{} // ends Stream; nil: never
	Why    string          // a comment of the file
}

// Written is what became of the frames that were there to be written.
type Written struct {
	Frames  uint64
	Bytes   int64  // of the file, about
	Missing uint64 // written over before they were read
	Left    uint64 // not written: WriteOptions.Limit
}

// ErrOff: the recorders are off.
var ErrOff = errors.New("record: the recorder is off")

// Write writes what the recorders have, as pcapng. Error: ErrOff if none of them is on.
func Write(w io.Writer, list []*Recorder, o WriteOptions) (Written, error) {
	x, err := newReadingWriter(w, list, o)
	if err != nil {
		return Written{}, err
	}
	if err = x.collect(lastTime); err == nil {
		err = x.finish()
	}
	return x.written, err
}

// streamEvery is how often Stream looks for new frames; beatEvery how often it writes at least the statistics of the interfaces, which finds
// out that nobody reads any more.
const (
	streamEvery = 20 * time.Millisecond
	beatEvery   = time.Second
)

// Stream is Write, and goes on with what comes.
func Stream(w io.Writer, list []*Recorder, o WriteOptions) (Written, error) {
	x, err := newReadingWriter(w, list, o)
	if err != nil {
		return Written{}, err
	}
	var end <-chan time.Time
	if o.For > 0 {
		timer := time.NewTimer(o.For)
		defer timer.Stop()
		end = timer.C
	}
	tick := time.NewTicker(streamEvery)
	defer tick.Stop()
	beat := time.Now()
	for {
		before := x.written.Frames
		if err = x.collect(!lastTime); err == nil && time.Since(beat) >= beatEvery {
			err, beat = x.statistics(), time.Now()
			before-- // written, too
		}
		if err == nil && x.written.Frames != before {
			err = x.flush()
		}
		if err != nil {
			return x.written, err
		}
		select {
		case <-tick.C:
			continue
		case <-end:
		case <-o.Done:
		}
		if err = x.collect(lastTime); err == nil {
			err = x.finish()
		}
		return x.written, err
	}
}

// writer makes a file of records.
type writer struct {
	out        *bufio.Writer
	pcap       *pcapgo.NgWriter
	options    WriteOptions
	filter     *filter
	cursors    []*cursor
	since      int64
	interfaces map[string]*ngInterface
	order      []*ngInterface
	written    Written
	full       bool // a frame had no room (WriteOptions.Limit): none is written any more, so that the file has no hole in front of a shorter one
}

type ngInterface struct {
	id      int
	frames  uint64
	dropped uint64 // by the link, or written over before they were read
}

// newWriter makes a writer without cursors and filter. The file begins with its first interface, because the format's library begins files with
// one.
func newWriter(w io.Writer, o WriteOptions) *writer {
	return &writer{out: bufio.NewWriterSize(w, 256<<10), options: o, interfaces: map[string]*ngInterface{}}
}

// newReadingWriter makes a writer with a cursor for each recorder that is on. Error: ErrOff if none is, or the filter of the options.
func newReadingWriter(w io.Writer, list []*Recorder, o WriteOptions) (*writer, error) {
	f, err := parseFilter(o.Filter)
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	x := newWriter(w, o)
	x.filter = f
	for _, r := range list {
		if r.IsOn() {
			x.cursors = append(x.cursors, newCursor(r))
		}
	}
	if len(x.cursors) == 0 {
		return nil, ErrOff
	}
	if o.Last > 0 {
		x.since = time.Now().Add(-o.Last).UnixNano()
	}
	if !o.Since.IsZero() {
		x.since = max(x.since, o.Since.UnixNano())
	}
	return x, nil
}

// lastTime is the argument last of collect when it is not called again.
const lastTime = true

// collect writes the records that are new; last: the events that wait for a frame too.
func (x *writer) collect(last bool) error {
	var all []Record
	for _, c := range x.cursors {
		all = append(all, c.next(last)...)
	}
	if len(x.cursors) > 1 {
		slices.SortStableFunc(all, func(a, b Record) int { return int(max(-1, min(1, a.Nanos-b.Nanos))) })
	}
	for i := range all {
		if _, err := x.write(&all[i]); err != nil {
			return err
		}
	}
	return nil
}

// What a file needs at the most beside the bytes of frames and texts.
const (
	frameSize     = 72  // for a frame: its block and options
	commentSize   = 8   // for a comment
	interfaceSize = 512 // for an interface: its block and its statistics; for the first one also the file's head
)

// write writes a record, unless it is not asked for or the file has its size (WriteOptions.Limit).
func (x *writer) write(r *Record) (wrote bool, err error) {
	x.written.Missing += uint64(r.Missing)
	if r.unwanted || r.Nanos < x.since || x.filter != nil && !x.filter.accepts(r.Bytes) {
		return false, nil
	}
	comments := r.Comments
	if r.Missing > 0 {
		comments = append(comments, fmt.Sprintf("%d frames before this one were written over before they were read", r.Missing))
	}
	size := int64(len(r.Bytes)) + frameSize
	for _, c := range comments {
		size += int64(len(c)) + commentSize
	}
	if x.interfaces[r.Interface] == nil {
		size += interfaceSize
	}
	if x.options.Limit > 0 && x.written.Bytes+size > x.options.Limit {
		x.full = true
	}
	if x.full {
		x.written.Left++
		return false, nil
	}
	i, err := x.interfaceOf(r.Interface)
	if err != nil {
		return false, err
	}
	i.frames++
	i.dropped += uint64(r.Lost) + uint64(r.Missing)
	queue := uint32(r.Queue)
	options := pcapgo.NgPacketOptions{Comments: comments, Flags: &inbound, Queue: &queue}
	if r.Out {
		options.Flags = &outbound
	}
	if r.Lost > 0 {
		lost := uint64(r.Lost)
		options.DropCount = &lost
	}
	x.written.Frames++
	x.written.Bytes += size
	return true, x.pcap.WritePacketWithOptions(gopacket.CaptureInfo{Timestamp: time.Unix(0, r.Nanos), CaptureLength: len(r.Bytes), Length: r.Length,
		InterfaceIndex: i.id}, r.Bytes, options)
}

var (
	inbound  = pcapgo.NgEpbFlags{Direction: pcapgo.NgEpbFlagDirectionInbound}
	outbound = pcapgo.NgEpbFlags{Direction: pcapgo.NgEpbFlagDirectionOutbound}
)

// interfaceOf is the interface of the file with a name, which is written before its first frame. The first one begins the file.
func (x *writer) interfaceOf(name string) (*ngInterface, error) {
	if i := x.interfaces[name]; i != nil {
		return i, nil
	}
	i := &ngInterface{}
	description := pcapgo.NgInterface{Name: name, LinkType: layers.LinkTypeEthernet}
	var err error
	if x.pcap == nil {
		o := pcapgo.DefaultNgWriterOptions
		o.SectionInfo.Application, o.SectionInfo.Comment = "socketxtreme", x.options.Why
		x.pcap, err = pcapgo.NewNgWriterInterface(x.out, description, o)
	} else {
		i.id, err = x.pcap.AddInterface(description)
	}
	x.interfaces[name] = i
	x.order = append(x.order, i)
	return i, err
}

// statistics writes how many frames of each interface there were.
func (x *writer) statistics() error {
	if x.pcap == nil {
		if _, err := x.interfaceOf("none"); err != nil { // without frames a reader still wants a head
			return err
		}
	}
	for _, i := range x.order {
		if err := x.pcap.WriteInterfaceStats(i.id, pcapgo.NgInterfaceStatistics{LastUpdate: time.Now(), PacketsReceived: i.frames + i.dropped,
			PacketsDropped: i.dropped}); err != nil {
			return err
		}
	}
	return nil
}

func (x *writer) flush() error {
	if x.pcap == nil {
		return nil
	}
	return errors.Join(x.pcap.Flush(), x.out.Flush())
}

// finish ends the file.
func (x *writer) finish() error { return errors.Join(x.statistics(), x.flush()) }
