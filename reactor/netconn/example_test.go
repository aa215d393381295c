package netconn_test

import (
	"fmt"
	"io"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/reactor/netconn"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// A server and a client in one process, both on one network.
func Example() {
	engine, err := xtreme.New(conf.FromEnvironment())
	if err != nil {
		fmt.Println(err)
		return
	}
	network, err := netconn.New(engine, netconn.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = network.Close() }()
	listener, err := network.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		_, _ = io.Copy(c, c) // echo
	}()

	c, err := network.Dial("tcp", listener.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close() }()
	_, _ = io.WriteString(c, "hello")
	_ = c.(*netconn.Conn).CloseWrite()
	answer, err := io.ReadAll(c)
	fmt.Println(string(answer), err)
	// Output: hello <nil>
}
