package conf_test

import (
	"fmt"
	"net/netip"
	"os"

	"github.com/socketxtreme/socketxtreme/conf"
)

// Settings come from the environment, VMA's names among them, and code changes what differs. A value that cannot be used leaves the
// default and is named.
func Example() {
	for name, value := range map[string]string{"VMA_RX_BUFS": "1024", "SX_RING": "epoll", "VMA_RX_POLL": "plenty"} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
		defer os.Unsetenv(name) //nolint:errcheck // it was just set
	}

	s := conf.FromEnvironment()
	s.RingLogic = 10 // one ring per socket

	fmt.Println(s.Ring, s.SmallBuffers, s.RingLogic)
	fmt.Println(s.RxPoll == conf.Default().RxPoll)
	for _, w := range s.Warnings {
		fmt.Println("warning:", w)
	}
	// Output:
	// epoll 1024 10
	// true
	// warning: VMA_RX_POLL="plenty": want auto, or a number from -1 to 100000000; the default is used
}

// Validate names the first setting that is out of range.
func ExampleSettings_Validate() {
	s := conf.Default()
	fmt.Println(s.Validate())
	s.SmallBuffers = 10
	fmt.Println(s.Validate())
	// Output:
	// <nil>
	// conf: SmallBuffers 10: want a number from 64 to 1917161 (VMA_RX_BUFS)
}

// ParseRingKind reads a kind by its name, as from a flag.
func ExampleParseRingKind() {
	fmt.Println(conf.ParseRingKind("uring"))
	_, err := conf.ParseRingKind("verbs")
	fmt.Println(err)
	// Output:
	// uring <nil>
	// ring kind "verbs": want auto, uring, epoll or offload
}

// A profile sets several settings at once; what follows has the last word. The lines are those that an engine prints when it starts.
func ExampleWithProfile() {
	s, err := conf.WithProfile("low-cpu")
	if err != nil {
		panic(err)
	}
	s.SmallBuffers = 2048
	for _, line := range s.Lines(false)[1:] {
		fmt.Println(line)
	}
	// Output:
	// Rx Mem Bufs                    2048                       [VMA_RX_BUFS]
	// Large Mem Bufs                 32                         [SX_LARGE_BUFS]
	// Rx Poll Loops                  0                          [VMA_RX_POLL]
	// Select Poll (usec)             0                          [VMA_SELECT_POLL]
	// Log Level                                                 [VMA_TRACELEVEL]
	// SPEC                           low-cpu                    [VMA_SPEC]
	// ---------------------------------------------------------------------------
}

// The first group for the program decides, in it the first rule that matches.
func ExampleRules_Match() {
	rules, err := conf.ParseRules(`
application-id gateway *
use os tcp_server *:22
use sx tcp_server 10.0.0.0/8:*
use os tcp_server *:*
`)
	if err != nil {
		panic(err)
	}
	me := conf.Program{Name: "gateway", ID: conf.DefaultApplicationID}
	for _, at := range []string{"10.1.1.1:22", "10.1.1.1:80", "192.0.2.1:80"} {
		a := rules.Match(me, conf.TCPServer, netip.MustParseAddrPort(at), netip.AddrPort{})
		fmt.Printf("%s: %v, by %v in line %d\n", at, a.Transport, a.Rule, a.Rule.Line)
	}
	// Output:
	// 10.1.1.1:22: os, by use os tcp_server *:22 in line 3
	// 10.1.1.1:80: sx, by use sx tcp_server 10.0.0.0/8:* in line 4
	// 192.0.2.1:80: os, by use os tcp_server *:* in line 5
}

// A mistake has its place.
func ExampleParseRules() {
	_, err := conf.ParseRules("use os tcp_server *:22\nuse os tcp_server 10.0.0.300:80\n")
	fmt.Println(err)
	// Output:
	// conf: rules: line 2, column 26: "300": want 0 to 255
}
