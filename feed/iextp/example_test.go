package iextp_test

import (
	"errors"
	"fmt"

	"github.com/socketxtreme/socketxtreme/feed"
	"github.com/socketxtreme/socketxtreme/feed/iextp"
)

// A packet is written, read again, and read when its last byte is missing.
func Example() {
	packet := iextp.AppendHeader(nil, iextp.Segment{Protocol: iextp.DEEP10, Channel: 1, Session: 7, Seq: 100})
	packet = iextp.AppendMessage(packet, []byte("first"))
	packet = iextp.AppendMessage(packet, []byte("second"))
	iextp.Finish(packet, 2)

	h, messages, err := iextp.Parse(packet)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("session %d, messages %d to %d\n", h.Session(), h.Seq(), h.Seq()+uint64(h.Count())-1)
	for m, rest := iextp.Next(messages); m != nil; m, rest = iextp.Next(rest) {
		fmt.Printf("%s\n", m)
	}

	_, _, err = iextp.Parse(packet[:len(packet)-1])
	fmt.Println(err)
	var fault *feed.FormatError
	fmt.Println(errors.Is(err, iextp.ErrLength), errors.As(err, &fault) && fault.Offset == iextp.HeaderLen)
	// Output:
	// session 7, messages 100 to 101
	// first
	// second
	// iextp: payload or message longer than the bytes there are: at byte 40: have 14, want 15
	// true true
}

// What a packet claims goes to a feed.Channel, which arbitrates between the lines.
func ExampleParse_arbitration() {
	channel, err := feed.New[int](feed.Config{Lines: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	packet := iextp.AppendMessage(iextp.AppendHeader(nil, iextp.Segment{Protocol: iextp.DEEP10, Seq: 1}), []byte("first"))
	iextp.Finish(packet, 1)
	for line := range uint8(2) {
		h, _, err := iextp.Parse(packet)
		if err != nil {
			fmt.Println(err)
			return
		}
		channel.Input(&feed.Segment[int]{Session: uint64(h.Session()), Seq: h.Seq(), Count: h.Count(), Sent: h.SendTime(),
			Payload: packet, Line: line})
		for d := (feed.Delivery[int]{}); channel.Next(&d); {
			fmt.Printf("line %c: %d new\n", 'A'+d.Line, d.Count)
		}
	}
	// Output:
	// line A: 1 new
	// line B: 0 new
}

func ExampleGapFill() {
	request := iextp.GapFill{Protocol: iextp.DEEP10, Channel: 1, Session: 7, From: 100, To: 110}.Append(nil)
	fmt.Println(len(request) == iextp.GapFillLen)
	_, err := iextp.ParseGapFill(request[:20])
	fmt.Println(err)
	// Output:
	// true
	// iextp: not a gap fill request for one range of messages: at byte 0: have 20, want 32
}
