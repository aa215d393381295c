package conf

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseInterfaces(t *testing.T) {
	list, err := ParseInterfaces("eth1, eth2:0:4-6,enp3s0f1np1")
	require.NoError(t, err)
	require.Equal(t, []Interface{{Name: "eth1"}, {Name: "eth2", Queues: []int{0, 4, 5, 6}}, {Name: "enp3s0f1np1"}}, list)
	require.Equal(t, "eth2:0:4:5:6", list[1].String())
	for text, want := range map[string]string{
		"":                    `interface ""`,
		"eth1,,eth2":          `interface ""`,
		"eth1,eth1":           `interface "eth1": named twice`,
		"eth1:0:0-2":          `interface "eth1": queue 0: named twice`,
		"eth1:x":              `queues "x"`,
		"eth1:-1":             `queues "-1"`,
		"eth1:7-4":            `queues "7-4"`,
		"eth1:1024":           `queues "1024"`,
		"a-name-that-is-long": `interface "a-name-that-is-long": not a name`,
		"a/b":                 `interface "a/b": not a name`,
		"a b":                 `interface "a b": not a name`,
		"..":                  `interface "..": not a name`,
	} {
		_, err := ParseInterfaces(text)
		require.ErrorContains(t, err, want, text)
	}
}

func TestOffloadFromTheEnvironment(t *testing.T) {
	s := fromEnvironment(env(map[string]string{"SX_RING": "offload", "SX_OFFLOAD_INTERFACES": "eth1:0-1", "SX_CHECKSUM": "strict"}))
	require.Empty(t, s.Warnings)
	require.Equal(t, RingOffload, s.Ring)
	require.Equal(t, Offload{Interfaces: []Interface{{Name: "eth1", Queues: []int{0, 1}}}, Checksum: ChecksumStrict}, s.Offload)
	require.NoError(t, s.Validate())

	s = fromEnvironment(env(map[string]string{"SX_OFFLOAD_INTERFACES": "", "SX_CHECKSUM": ""}))
	require.Empty(t, s.Warnings)
	for name, text := range map[string]string{"SX_OFFLOAD_INTERFACES": "eth1:many", "SX_CHECKSUM": "lax"} {
		s := fromEnvironment(env(map[string]string{name: text}))
		require.Len(t, s.Warnings, 1, name)
		require.Contains(t, s.Warnings[0], name)
		s.Warnings = nil
		require.Equal(t, Default(), s, name)
	}
}

func TestValidateOffload(t *testing.T) {
	for want, o := range map[string]Offload{
		"Offload.Checksum":            {Checksum: "lax"},
		"Offload.Mode":                {Mode: "turbo"},
		"Offload.Time":                {Time: "sundial"},
		`interface "": not a name`:    {Interfaces: []Interface{{}}},
		`interface "eth1": queue -1`:  {Interfaces: []Interface{{Name: "eth1", Queues: []int{-1}}}},
		`"eth1": queue 3: named twic`: {Interfaces: []Interface{{Name: "eth1", Queues: []int{3, 3}}}},
	} {
		s := Default()
		s.Offload = o
		require.ErrorContains(t, s.Validate(), want)
	}
	s := Default()
	s.Offload.Checksum = ChecksumOff
	require.NoError(t, s.Validate())
}
