package moldudp64_test

import (
	"fmt"

	"github.com/socketxtreme/socketxtreme/feed/moldudp64"
)

// A packet is written, read again, and read when its last byte is missing.
func Example() {
	packet := moldudp64.AppendHeader(nil, "000010059B", 100, 2)
	packet = moldudp64.AppendMessage(packet, []byte("first"))
	packet = moldudp64.AppendMessage(packet, []byte("second"))

	h, messages, err := moldudp64.Parse(packet)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("session %s, messages %d to %d\n", h.Session(), h.Seq(), h.Seq()+uint64(h.Count())-1)
	for m, rest := moldudp64.Next(messages); m != nil; m, rest = moldudp64.Next(rest) {
		fmt.Printf("%s\n", m)
	}
	_, _, err = moldudp64.Parse(packet[:len(packet)-1])
	fmt.Println(err)
	// Output:
	// session 000010059B, messages 100 to 101
	// first
	// second
	// moldudp64: message longer than the bytes there are: at byte 27: have 7, want 8
}

func ExampleRequest() {
	b := moldudp64.Request{Session: "000010059B", Seq: 100, Count: 3}.Append(nil)
	r, err := moldudp64.ParseRequest(b)
	fmt.Println(r.Seq, r.Count, err)
	_, err = moldudp64.ParseRequest(b[:12])
	fmt.Println(err)
	// Output:
	// 100 3 <nil>
	// moldudp64: not a request for 1 to 65,534 messages: at byte 0: have 12, want 20
}
