package main

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/feed/moldudp64"
)

// What was not credited is not sent; with the end of its input the replay ends, in time or before.
func TestSendsWithinItsCredit(t *testing.T) {
	var file []byte
	for i := range 40 { // ten packets, then three heartbeats
		file = append(file, 0, 3, 'x', byte(i), 'y')
	}
	bin := filepath.Join(t.TempDir(), "made.bin")
	require.NoError(t, os.WriteFile(bin, file, 0o600))
	for _, c := range []struct {
		name  string
		input string
		sent  int // of the ten packets of the capture
		ends  string
	}{
		{"enough", "13\n", 10, ""},
		{"too little", "4\n", 4, "after 4 packets: -credit: standard input ended"},
		{"never less than before", "7\n3\n", 7, "after 7 packets: -credit: standard input ended"},
		{"no number", "2\nmany\n", 2, `after 2 packets: -credit: "many" on standard input: want a number of packets`},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
			require.NoError(t, err)
			defer func() { require.NoError(t, in.Close()) }()
			replay, o, err := parse([]string{"-pcap", bin, "-ab", in.LocalAddr().String(), "-speed", "max", "-credit"})
			require.NoError(t, err)
			from, to := io.Pipe()
			ended := make(chan error, 1)
			ctx := obey(t.Context(), &replay, from)
			go func() { ended <- run(ctx, replay, o.log) }()
			_, err = io.WriteString(to, c.input)
			require.NoError(t, err)
			require.NoError(t, in.SetReadDeadline(time.Now().Add(10*time.Second)))
			b := make([]byte, 2048)
			read := func() bool {
				n, err := in.Read(b)
				require.NoError(t, err)
				h, _, err := moldudp64.Parse(b[:n])
				require.NoError(t, err)
				return h.Count() > 0
			}
			for range c.sent {
				require.True(t, read())
			}
			if c.ends == "" {
				for range 3 {
					require.False(t, read())
				}
			}
			require.NoError(t, to.Close())
			err = <-ended
			if c.ends == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.ends)
			}
			require.NoError(t, in.SetReadDeadline(time.Now())) // what was sent is here: loopback delivers within the send
			_, err = in.Read(b)
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		})
	}
}
