package harness

import (
	"bytes"
	"encoding/binary"
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The child runs on the one CPU, and the harness goes back to all of its own.
func TestStartOnBindsTheChildOnly(t *testing.T) {
	cpus, err := allowedCPUs()
	require.NoError(t, err)
	require.NotEmpty(t, cpus)
	last := cpus[len(cpus)-1]
	var out bytes.Buffer
	cmd := exec.Command("cat", "/proc/self/status")
	cmd.Stdout = &out
	require.NoError(t, startOn(cmd, last))
	require.NoError(t, cmd.Wait())
	list := regexp.MustCompile(`Cpus_allowed_list:\s*(\S+)`).FindStringSubmatch(out.String())
	require.Len(t, list, 2)
	require.Equal(t, strconv.Itoa(last), list[1])
	after, err := allowedCPUs()
	require.NoError(t, err)
	require.Equal(t, cpus, after)
}

func TestStartOnUnknownCPU(t *testing.T) {
	require.ErrorIs(t, startOn(exec.Command("true"), 1000), unix.EINVAL)
}

func TestPickAvoidsTheOtherSide(t *testing.T) {
	require.Equal(t, 0, pick([]int{0, 1}, -1))
	require.Equal(t, 1, pick([]int{0, 1}, 0))
	require.Equal(t, 3, pick([]int{3}, 3), "one CPU is shared")
}

func message(kind uint32, sequence uint64) []byte {
	m := make([]byte, MessageSize)
	binary.LittleEndian.PutUint32(m, messageMagic)
	binary.LittleEndian.PutUint32(m[kindAt:], kind)
	binary.LittleEndian.PutUint64(m[sequenceAt:], sequence)
	return m
}

func TestTally(t *testing.T) {
	var c Tally
	for _, sequence := range []uint64{1, 2, 5, 4, 5, 6} { // 3 is lost, 4 late, 5 twice
		require.False(t, c.Take(message(messageData, sequence)))
	}
	require.False(t, c.Take(make([]byte, MessageSize)), "not one of ours")
	require.False(t, c.Take(message(messageAnswer, 1)), "answers are for the client")
	query := message(messageQuery, 77)
	require.True(t, c.Take(query))
	require.EqualValues(t, messageAnswer, binary.LittleEndian.Uint32(query[kindAt:]))
	require.EqualValues(t, 77, binary.LittleEndian.Uint64(query[sequenceAt:]))
	require.EqualValues(t, 6, binary.LittleEndian.Uint64(query[receivedAt:]))
	require.EqualValues(t, 2, binary.LittleEndian.Uint64(query[behindAt:]))
}

func TestTallyAllocatesNothing(t *testing.T) {
	var c Tally
	m := message(messageData, 1)
	require.Zero(t, testing.AllocsPerRun(100, func() { c.Take(m) }))
}
