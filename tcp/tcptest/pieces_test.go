package tcptest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/packetdrill"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// Data that was queued in pieces that are shorter than a segment leaves when nothing is in flight any more, whatever the Nagle algorithm.
func TestSmallPiecesLeave(t *testing.T) {
	script, err := packetdrill.Parse("pieces", `
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
0 < S 0:0(0) win 10000 <mss 1000>
+0 > S. 0:0(0) ack 1 <mss 1460>
+.1 < . 1:1(0) ack 1 win 10000
+0 accept(3, ..., ...) = 4
+0 write(4, ..., 100) = 100
+0 > P. 1:101(100) ack 1
+0 write(4, ..., 200) = 200
+.1 < . 1:1(0) ack 101 win 10000
+0 > P. 101:201(100) ack 1
+.1 < . 1:1(0) ack 201 win 10000
+0 > P. 201:301(100) ack 1
`)
	require.NoError(t, err)
	require.NoError(t, Play(script, PlayConfig{Piece: 100}))
}

// Small segments are acknowledged at once when they are as much as two full ones (RFC 5681 section 4.2), also behind the quick
// acknowledgements of a connection's start.
func TestSmallSegmentsAreAcknowledgedByBytes(t *testing.T) {
	var b strings.Builder
	b.WriteString(`
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
0 < S 0:0(0) win 10000 <mss 1000>
+0 > S. 0:0(0) ack 1 <mss 1460>
+.1 < . 1:1(0) ack 1 win 10000
+0 accept(3, ..., ...) = 4
`)
	at := 1
	for range 16 {
		fmt.Fprintf(&b, "+.01 < P. %d:%d(200) ack 1 win 10000\n+0 > . 1:1(0) ack %d\n", at, at+200, at+200)
		at += 200
	}
	for range 10 {
		fmt.Fprintf(&b, "+0 < P. %d:%d(200) ack 1 win 10000\n", at, at+200)
		at += 200
	}
	fmt.Fprintf(&b, "+0 > . 1:1(0) ack %d\n", at)
	script, err := packetdrill.Parse("bytes", b.String())
	require.NoError(t, err)
	require.NoError(t, Play(script, PlayConfig{}))
}

// A cookie has no room for every segment size: what it says is never more than the peer's.
func TestCookieKeepsASmallSegmentSize(t *testing.T) {
	script, err := packetdrill.Parse("cookie", `
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
0 < S 0:0(0) win 10000 <mss 156>
+0 > S. 0:0(0) ack 1 <...>
+.1 < . 1:1(0) ack 1 win 10000
+0 accept(3, ..., ...) = 4
+0 %{ assert tcpi_snd_mss <= 156 }%
`)
	require.NoError(t, err)
	require.NoError(t, Play(script, PlayConfig{Table: tcp.Config{Cookies: tcp.CookiesAlways}}))
}
