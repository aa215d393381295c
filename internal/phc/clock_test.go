package phc

import (
	"errors"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestStampingClock(t *testing.T) {
	const all = unix.SOF_TIMESTAMPING_RX_HARDWARE | unix.SOF_TIMESTAMPING_RAW_HARDWARE | unix.SOF_TIMESTAMPING_TX_HARDWARE
	on, off := &unix.HwTstampConfig{Rx_filter: unix.HWTSTAMP_FILTER_ALL}, &unix.HwTstampConfig{Rx_filter: unix.HWTSTAMP_FILTER_NONE}
	for _, test := range []struct {
		stamping uint32
		clock    int32
		config   *unix.HwTstampConfig
		code     string
	}{
		{all, 3, on, ""},
		{all, 0, nil, ""}, // a driver that does not tell how it is configured
		{all, 3, off, CodeStampsOff},
		{all, -1, on, CodeNoClock},
		{unix.SOF_TIMESTAMPING_RX_SOFTWARE | unix.SOF_TIMESTAMPING_SOFTWARE, -1, nil, CodeNoStamps},
		{unix.SOF_TIMESTAMPING_RX_HARDWARE, 3, on, CodeNoStamps},  // converted by the kernel once, not any more
		{unix.SOF_TIMESTAMPING_RAW_HARDWARE, 3, on, CodeNoStamps}, // of sent packets only
		{0, 0, nil, CodeNoStamps},
	} {
		index, r := stampingClock("eth7", &unix.EthtoolTsInfo{So_timestamping: test.stamping, Phc_index: test.clock}, test.config)
		if test.code == "" {
			require.Nil(t, r)
			require.Equal(t, int(test.clock), index)
			continue
		}
		require.Equal(t, test.code, r.Code)
		require.ErrorContains(t, r, "eth7")
		code, text := r.Reason()
		require.Equal(t, test.code, code)
		require.NotEmpty(t, text)
	}
}

func TestBestSample(t *testing.T) {
	for _, test := range []struct {
		samples      [][3]int64
		card, system int64
		ok           bool
	}{
		{nil, 0, 0, false},
		{[][3]int64{{1000, 50, 1010}}, 50, 1005, true},
		{[][3]int64{{1000, 50, 1100}, {2000, 1050, 2010}, {3000, 2050, 3050}}, 1050, 2005, true},
		{[][3]int64{{1000, 50, 900}}, 0, 0, false}, // the system's clock was set back between the readings
		{[][3]int64{{1000, 50, 900}, {2000, 60, 2400}}, 60, 2200, true},
		{[][3]int64{{1000, 50, 1000}, {2000, 60, 2400}}, 50, 1000, true}, // a clock too coarse to see the window
	} {
		card, system, ok := narrowest(test.samples)
		require.Equal(t, test.ok, ok)
		require.Equal(t, test.card, card)
		require.Equal(t, test.system, system)
	}
}

func TestNoCard(t *testing.T) {
	lo, err := net.InterfaceByName("lo")
	require.NoError(t, err)
	for index, code := range map[int]string{lo.Index: CodeNoStamps, 1 << 30: CodeNoInterface} {
		c, err := Open(index)
		require.Nil(t, c)
		var r *Refusal
		require.True(t, errors.As(err, &r))
		require.Equal(t, code, r.Code)
		require.NotEmpty(t, r.Text)
	}
	_, err = openDevice(9999, "eth7")
	require.ErrorIs(t, err, unix.ENOENT)
	require.ErrorContains(t, err, "/dev/ptp9999")
}
