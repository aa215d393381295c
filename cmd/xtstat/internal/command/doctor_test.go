package command

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/cmd/xtstat/internal/doctor"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// The doctor looks at this very machine, at a veth in a namespace of its own: lines and JSON, exit code, a cure that is applied and undone.
func TestDoctorOnAVeth(t *testing.T) {
	n := testnet.New(t, testnet.Pair{})
	run := func(args ...string) (int, string) {
		var out, errs bytes.Buffer
		code := Run(append([]string{"doctor"}, args...), &out, &errs)
		require.Empty(t, errs.String())
		return code, out.String()
	}
	set := func(path, value string) { require.NoError(t, doctor.This().Write("proc/sys/net/ipv4/"+path, value)) }
	set("conf/all/rp_filter", "0")
	set("conf/v0/rp_filter", "1")
	set("igmp_max_memberships", "20")
	_, text := run(n.Device(0))
	require.Contains(t, text, "up, with a carrier, driver veth")
	require.Contains(t, text, "generic is best for a veth")
	require.Regexp(t, `cure +v0 rp-filter .*ip.rp_filter`, text)
	require.NotContains(t, text, "\x1b")
	for line := range strings.Lines(text) {
		require.Regexp(t, `^(good|cure|note|unknown) `, line)
	}

	find := func(args ...string) (r doctor.Result, code int) {
		code, text := run(append(args, "--json", n.Device(0))...)
		for line := range strings.Lines(text) {
			var one doctor.Result
			require.NoError(t, json.Unmarshal([]byte(line), &one))
			if one.Check == "igmp-limits" && strings.Contains(one.Text, "memberships") {
				r = one
			}
		}
		return r, code
	}
	r, code := find()
	require.Equal(t, exitFailure, code)
	require.Equal(t, doctor.Cure, r.Status)
	require.Contains(t, r.Cure, "sysctl -w net.ipv4.igmp_max_memberships=256")
	r, _ = find("--fix")
	require.Equal(t, doctor.Good, r.Status)
	require.Equal(t, "/proc/sys/net/ipv4/igmp_max_memberships = 256", r.Fixed)
	require.Equal(t, "echo 20 > /proc/sys/net/ipv4/igmp_max_memberships", r.Undo)
	r, _ = find()
	require.Equal(t, doctor.Good, r.Status)
}

// An interface that does not exist is an error, and two of them a mistake on the command line.
func TestDoctorExitCodes(t *testing.T) {
	var out, errs bytes.Buffer
	require.Equal(t, exitUsage, Run([]string{"doctor", "a", "b"}, &out, &errs))
	require.Equal(t, exitFailure, Run([]string{"doctor", "nosuch0"}, &out, &errs))
	require.Contains(t, errs.String(), `interface "nosuch0"`)
}
