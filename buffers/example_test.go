package buffers_test

import (
	"fmt"
	"sync"

	"github.com/socketxtreme/socketxtreme/buffers"
)

// What a ring does with the pool, and what the application sees of it.
func Example() {
	layout := buffers.DefaultLayout()
	pool, err := buffers.New(make([]byte, layout.Bytes()), layout)
	if err != nil {
		fmt.Println(err)
		return
	}
	socket, _ := pool.OpenAccount(0)

	// The ring: a free buffer, filled by the kernel, made a packet, handed over.
	i, _ := pool.Take(buffers.Small)
	n := copy(pool.Memory(i)[layout.Headroom:], "a datagram")
	packet := pool.Fill(i, layout.Headroom, n, socket)
	pool.Deliver(packet)

	// The application: reads in place and gives it back.
	fmt.Printf("%s, %d bytes of memory\n", packet.Bytes(), pool.Used(socket))
	fmt.Println(packet.Release())
	fmt.Println(packet.Release())
	// Output:
	// a datagram, 2240 bytes of memory
	// <nil>
	// buffers: stale handle: already released, lent, sent or appended
}

func ExamplePacket_Pull() {
	pool := examplePool()
	packet := pool.Append(datagram(pool, "len=5;he"), datagram(pool, "llo"))
	_ = packet.Pull(len("len=5;"))
	fmt.Println(packet.Len(), "bytes left")
	for packet.Len() > 0 {
		b := packet.Bytes()
		fmt.Printf("%s\n", b)
		_ = packet.Pull(len(b))
	}
	_ = packet.Release()
	// Output:
	// 5 bytes left
	// he
	// llo
}

// A worker goroutine reads a packet while its owner goes on.
func ExamplePacket_Lend() {
	pool := examplePool()
	lent, err := datagram(pool, "slow work").Lend()
	if err != nil {
		fmt.Println(err)
		return
	}
	var worker sync.WaitGroup
	worker.Go(func() {
		fmt.Printf("%s\n", lent.Bytes())
		_ = lent.Release()
	})
	worker.Wait()
	fmt.Println(pool.Reclaim(), "back")
	// Output:
	// slow work
	// 1 back
}

// Of a chain only the buffer that is needed later is kept.
func ExampleBuffer_Retain() {
	pool := examplePool()
	packet := pool.Append(datagram(pool, "header"), datagram(pool, "body"))
	body, _ := packet.Buffer().Next()
	_ = body.Retain()
	_ = packet.Release()
	fmt.Printf("%s, %v\n", body.Bytes(), pool.Ledger())
	_ = body.Release()
	// Output:
	// body, free 7, filling 0, received 0, held 1, lent 0, transmitting 0, unacknowledged 0, completing 0, total 8
}

func ExamplePool_Alloc() {
	pool := examplePool()
	packet, err := pool.Alloc(0)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = packet.SetLen(copy(packet.Room(), "an answer"))
	sending, err := pool.Transmit(packet) // what Socket.SendPacket does with it
	fmt.Printf("%s %v, still mine: %v\n", sending.Bytes(), err, packet.Valid())
	// Output:
	// an answer <nil>, still mine: false
}

func examplePool() *buffers.DriverPool {
	layout := buffers.Layout{SmallSize: 256, SmallCount: 8}
	pool, err := buffers.New(make([]byte, layout.Bytes()), layout)
	if err != nil {
		panic(err)
	}
	return pool
}

func datagram(pool *buffers.DriverPool, payload string) buffers.Packet {
	i, _ := pool.Take(buffers.Small)
	packet := pool.Fill(i, 0, copy(pool.Memory(i), payload), 0)
	pool.Deliver(packet)
	return packet
}
