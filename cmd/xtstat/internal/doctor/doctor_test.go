package doctor

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
)

// healthy is a machine with nothing to cure: a card with all there is, two nodes, isolated processors.
func healthy() (*System, fstest.MapFS) {
	files := fstest.MapFS{}
	for path, text := range map[string]string{
		"proc/sys/kernel/osrelease":                                         "6.12.1-amd64",
		"proc/self/status":                                                  "Name:\txtstat\nCapEff:\t000001ffffffffff\n",
		"proc/self/limits":                                                  "Limit Soft Hard Units\nMax locked memory unlimited unlimited bytes\nMax open files            65536    65536    files\n",
		"proc/meminfo":                                                      "HugePages_Total:      64\nHugePages_Free:       60\nHugepagesize:       2048 kB\n",
		"proc/sys/kernel/unprivileged_bpf_disabled":                         "2",
		"proc/sys/kernel/io_uring_disabled":                                 "0",
		"proc/sys/net/core/busy_poll":                                       "0",
		"proc/sys/net/core/busy_read":                                       "0",
		"proc/sys/net/core/rmem_max":                                        "8388608",
		"proc/sys/net/ipv4/igmp_max_memberships":                            "1024",
		"proc/sys/net/ipv4/igmp_max_msf":                                    "64",
		"proc/sys/net/ipv4/conf/all/arp_ignore":                             "0",
		"proc/sys/net/ipv4/conf/all/rp_filter":                              "0",
		"proc/sys/net/ipv4/conf/eth0/rp_filter":                             "2",
		"proc/interrupts":                                                   "  44:  1 2  PCI-MSI-0000 eth0-TxRx-0\n  45:  1 2  PCI-MSI-0001 nvme0q1\n",
		"proc/irq/44/smp_affinity_list":                                     "0-1",
		"sys/devices/system/cpu/isolated":                                   "2-3",
		"sys/devices/system/cpu/online":                                     "0-7",
		"sys/devices/system/cpu/nohz_full":                                  "2-3",
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor":              "performance",
		"sys/devices/system/cpu/cpu2/cpufreq/scaling_governor":              "performance",
		"sys/devices/system/cpu/cpu0/cpuidle/state1/latency":                "2",
		"sys/devices/system/cpu/cpu0/cpuidle/state1/disable":                "0",
		"sys/devices/system/cpu/cpu0/cpuidle/state1/name":                   "C1",
		"sys/devices/system/cpu/cpu0/cpuidle/state3/latency":                "133",
		"sys/devices/system/cpu/cpu0/cpuidle/state3/disable":                "1",
		"sys/devices/system/cpu/cpu0/cpuidle/state3/name":                   "C6",
		"sys/devices/system/clocksource/clocksource0/current_clocksource":   "tsc",
		"sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc hpet acpi_pm",
		"sys/devices/system/node/node0/cpulist":                             "0-3",
		"sys/devices/system/node/node1/cpulist":                             "4-7",
		"sys/class/net/eth0/device/numa_node":                               "0",
		"sys/class/net/eth0/queues/rx-0/rps_cpus":                           "0",
		"sys/class/net/eth0/napi_defer_hard_irqs":                           "0",
		"sys/class/net/eth0/gro_flush_timeout":                              "0",
	} {
		files[path] = &fstest.MapFile{Data: []byte(text + "\n")}
	}
	s := &System{Root: files,
		Interfaces: func() ([]Interface, error) {
			return []Interface{
				{Name: "lo", Loopback: true, Up: true, Carrier: true},
				{Name: "eth0", Kind: "device", Driver: "ice", Index: 2, MTU: 1500, Up: true, Carrier: true, Addresses: []string{"10.0.0.1/24"}, Combined: 1,
					CombinedMax: 64, Rings: &Rings{2048, 8160, 2048, 8160}, HasXDPFeatures: true, XDPFeatures: xdpBasic | xdpRedirect | xdpZeroCopy,
					Features: map[string]bool{"rx-checksum": true, "rx-gro": true, "rx-lro": false, "rx-vlan-hw-parse": false}},
			}, nil
		},
		Command: func(name string, args ...string) (string, error) {
			if name == "chronyc" {
				return "D8EF2308,time.example,2,1767225600.1,0.000012,0.00002,0.0001,0,0,0,0,0,0,Normal\n", nil
			}
			if name == "nft" {
				return "", nil // no rules
			}
			return "", fs.ErrNotExist
		},
		Offloaded: func() ([]Port, error) { return []Port{{"udp", netip.MustParseAddrPort("233.252.0.1:5000")}}, nil },
		Write: func(path, value string) error {
			if files[path] == nil {
				return fs.ErrNotExist
			}
			files[path] = &fstest.MapFile{Data: []byte(value + "\n")}
			return nil
		},
		Clock:  func() (time.Duration, bool, error) { return 0, true, nil },
		Getenv: func(string) string { return "" },
	}
	return s, files
}

// find is the line of a check.
func find(t *testing.T, list []Result, check string) Result {
	t.Helper()
	i := slices.IndexFunc(list, func(r Result) bool {
		return r.Check == check && (r.Status != Good || !slices.ContainsFunc(list, func(o Result) bool { return o.Check == check && o.Status == Cure }))
	})
	require.GreaterOrEqual(t, i, 0, "no line %s", check)
	return list[i]
}

func TestAHealthyMachine(t *testing.T) {
	s, _ := healthy()
	list, err := Run(s, "")
	require.NoError(t, err)
	for _, r := range list {
		require.Contains(t, []Status{Good, Note}, r.Status, "%s: %s", r.Check, r.Text)
		require.NotEmpty(t, r.Text)
		require.Empty(t, r.Cure)
		require.NotEqual(t, "lo", r.On)
	}
	_, err = Run(s, "eth9")
	require.ErrorContains(t, err, `"eth9"`)
}

// Each check finds its fault, and says what cures it: a fault turns exactly one check bad.
func TestEachFaultHasItsLine(t *testing.T) {
	card := func(change func(*Interface)) func(*System, fstest.MapFS) {
		return func(s *System, _ fstest.MapFS) {
			list, _ := s.Interfaces()
			change(&list[1])
			s.Interfaces = func() ([]Interface, error) { return list, nil }
		}
	}
	file := func(path, text string) func(*System, fstest.MapFS) {
		return func(_ *System, files fstest.MapFS) { files[path] = &fstest.MapFile{Data: []byte(text + "\n")} }
	}
	environment := func(name, value string) func(*System, fstest.MapFS) {
		return func(s *System, _ fstest.MapFS) {
			s.Getenv = func(n string) string {
				if n == name {
					return value
				}
				return ""
			}
		}
	}
	output := func(text string) func(*System, fstest.MapFS) {
		return func(s *System, _ fstest.MapFS) {
			s.Command = func(name string, _ ...string) (string, error) {
				if name == "nft" {
					return text, nil
				}
				return "", fs.ErrNotExist
			}
		}
	}
	cases := []struct {
		check  string
		change func(*System, fstest.MapFS)
		text   string
		cure   string
	}{
		{"kernel", file("proc/sys/kernel/osrelease", "5.4.0"), "xdp.no_kernel", "upgrade"},
		{"kernel", file("proc/sys/kernel/osrelease", "5.15.0-x"), "io_uring", "upgrade"},
		{"capabilities", file("proc/self/status", "CapEff:\t0000000000004000"), "CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF missing", "setcap"},
		{"unprivileged-bpf", file("proc/sys/kernel/unprivileged_bpf_disabled", "0"), "every user", "sysctl -w kernel.unprivileged_bpf_disabled=2"},
		{"io-uring", file("proc/sys/kernel/io_uring_disabled", "2"), "uring.disabled", "sysctl -w kernel.io_uring_disabled=0"},
		{"open-files", file("proc/self/limits", "Max open files 1024 1024 files\nMax locked memory unlimited unlimited bytes"), "1024", "ulimit -n"},
		{"huge-pages", file("proc/meminfo", "HugePages_Total: 0\nHugePages_Free: 0\nHugepagesize: 2048 kB"), "0 huge pages", "vm.nr_hugepages"},
		{"log-level", environment("VMA_TRACELEVEL", "debug"), "VMA_TRACELEVEL=debug", "unset VMA_TRACELEVEL"},
		{"log-level", environment("VMA_TRACELEVEL", "Warnings"), "", ""},
		{"log-level", environment("VMA_TRACELEVEL", "details"), "", ""}, // more lines at the start alone
		{"cpu-isolation", file("sys/devices/system/cpu/nohz_full", ""), "tick", "nohz_full=2-3"},
		{"cpu-isolation", file("sys/devices/system/cpu/isolated", ""), "no processor is isolated", "isolcpus=managed_irq,domain,7 "},
		{"governor", file("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "powersave"), "powersave on 1 of 2", "echo performance > /sys"},
		{"c-states", file("sys/devices/system/cpu/cpu0/cpuidle/state3/disable", "0"), "C6 takes 133", "echo 1 > /sys/devices/system/cpu/cpu0/cpuidle/state3/disable"},
		{"clock-source", file("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet"), "hpet", "echo tsc"},
		{"clock-offset", func(s *System, _ fstest.MapFS) {
			s.Command = func(string, ...string) (string, error) { return "", fs.ErrNotExist }
			s.Clock = func() (time.Duration, bool, error) { return 0, false, nil }
		}, "follows no other", "chrony"},
		{"clock-offset", func(s *System, _ fstest.MapFS) {
			s.Command = func(name string, _ ...string) (string, error) {
				if name == "chronyc" {
					return "D8EF2308,time.example,2,1767225600.1,-0.25,0,0", nil
				}
				return "", fs.ErrNotExist
			}
		}, "250ms off", "makestep"},
		{"busy-poll", file("proc/sys/net/core/busy_poll", "50"), "spins", "sysctl -w net.core.busy_poll=0"},
		{"receive-buffers", file("proc/sys/net/core/rmem_max", "212992"), "offload.small_shadow", "sysctl -w net.core.rmem_max=4194304"},
		{"igmp-limits", file("proc/sys/net/ipv4/igmp_max_memberships", "20"), "20", "igmp_max_memberships=256"},
		{"firewall", output("table inet filter {\n chain input {\n udp dport 5000 drop\n }\n}"), "udp 233.252.0.1:5000", "use os udp_receiver 233.252.0.1:5000"},
		{"link", card(func(i *Interface) { i.Up = false }), "link.down", "ip link set eth0 up"},
		{"link", card(func(i *Interface) { i.Carrier = false }), "link.no_carrier", "cable"},
		{"xdp", card(func(i *Interface) { i.XDPFeatures = 0 }), "xdp.no_native", "card"},
		{"bonding", file("sys/class/net/eth0/bonding/mode", "broadcast 3"), "link.bond_mode", "active-backup"},
		{"queues", func(s *System, files fstest.MapFS) {
			card(func(i *Interface) { i.Combined = 16 })(s, files)
		}, "16 queues for", "ethtool -L eth0 combined"},
		{"ring-sizes", card(func(i *Interface) { i.Rings.Rx = 256 }), "256", "ethtool -G eth0 rx 4096"},
		{"mtu", card(func(i *Interface) { i.MTU = 9000 }), "xdp.no_jumbo", "mtu 1500"},
		{"vlan-stripping", func(s *System, files fstest.MapFS) {
			list, _ := s.Interfaces()
			list[1].Features["rx-vlan-hw-parse"] = true
			list = append(list, Interface{Name: "v7", Kind: "vlan", Parent: "eth0", Loopback: true})
			s.Interfaces = func() ([]Interface, error) { return list, nil }
		}, "link.tags_apart", "rxvlan off"},
		{"gro", card(func(i *Interface) { i.Features["rx-lro"] = true }), "rx-lro", "lro off"},
		{"busy-poll-device", file("sys/class/net/eth0/gro_flush_timeout", "200000"), "200000 ns", "echo 0 > /sys/class/net/eth0/gro_flush_timeout"},
		{"numa", file("sys/class/net/eth0/device/numa_node", "1"), "node 1", "isolate processors among 4-7"},
		{"irq-affinity", file("proc/irq/44/smp_affinity_list", "0-3"), "interrupt 44", "irqbalance"},
		{"rp-filter", file("proc/sys/net/ipv4/conf/all/rp_filter", "1"), "", ""}, // 2 on the interface is larger: it is loose
		{"rp-filter", func(_ *System, files fstest.MapFS) {
			file("proc/sys/net/ipv4/conf/all/rp_filter", "1")(nil, files)
			file("proc/sys/net/ipv4/conf/eth0/rp_filter", "0")(nil, files)
		}, "ip.rp_filter", "rp_filter=2"},
		{"arp-flux", func(s *System, _ fstest.MapFS) {
			list, _ := s.Interfaces()
			list = append(list, Interface{Name: "eth1", Loopback: false, Up: true, Carrier: true, MTU: 1500, Kind: "dummy", Addresses: []string{"10.0.0.9/24"}})
			s.Interfaces = func() ([]Interface, error) { return list, nil }
			s.Root.(fstest.MapFS)["proc/sys/net/ipv4/conf/eth1/rp_filter"] = &fstest.MapFile{Data: []byte("0")}
			s.Root.(fstest.MapFS)["sys/class/net/eth1/queues/rx-0/rps_cpus"] = &fstest.MapFile{Data: []byte("0")}
		}, "eth0 and eth1 are in 10.0.0.0/24", "arp_ignore=1"},
		{"conntrack", func(s *System, files fstest.MapFS) {
			file("proc/sys/net/netfilter/nf_conntrack_count", "95")(s, files)
			file("proc/sys/net/netfilter/nf_conntrack_max", "100")(s, files)
		}, "95 of 100", "nf_conntrack_max=200"},
		{"locked-memory", func(_ *System, files fstest.MapFS) {
			file("proc/self/status", "CapEff:\t0000008000003000")(nil, files)
			file("proc/self/limits", "Max locked memory 65536 65536 bytes\nMax open files 65536 65536 files")(nil, files)
		}, "xdp.memlock", "ulimit -l"},
	}
	for _, c := range cases {
		t.Run(c.check, func(t *testing.T) {
			s, files := healthy()
			for n := range 64 {
				if c.check == "queues" && n < 4 {
					files["sys/devices/system/cpu/cpu"+string(rune('4'+n))+"/online"] = &fstest.MapFile{}
				}
			}
			c.change(s, files)
			list, err := Run(s, "eth0")
			require.NoError(t, err)
			for _, r := range list {
				if r.Check != c.check || c.cure == "" {
					require.NotEqual(t, Cure, r.Status, "%s: %s", r.Check, r.Text)
				}
			}
			if c.cure == "" {
				return
			}
			r := find(t, list, c.check)
			require.Equal(t, Cure, r.Status, "%s", r.Text)
			require.Contains(t, r.Text, c.text)
			require.Contains(t, r.Cure, c.cure)
		})
	}
	for _, name := range Names() { // zero-copy and checksums have only notes
		if name != "zero-copy" && name != "checksums" {
			require.True(t, slices.ContainsFunc(cases, func(c struct {
				check  string
				change func(*System, fstest.MapFS)
				text   string
				cure   string
			}) bool {
				return c.check == name
			}), "no fault provokes %s", name)
		}
	}
}

// Fix writes only what can be written back, and says how; what fails stays to be cured.
func TestFix(t *testing.T) {
	s, files := healthy()
	files["proc/sys/net/core/rmem_max"].Data = []byte("212992\n")
	files["sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"].Data = []byte("powersave\n")
	files["proc/sys/kernel/unprivileged_bpf_disabled"].Data = []byte("0\n")
	write := s.Write
	s.Write = func(path, value string) error {
		if strings.Contains(path, "governor") {
			return os.ErrPermission
		}
		return write(path, value)
	}
	list, err := Run(s, "eth0")
	require.NoError(t, err)
	Fix(s, list)
	r := find(t, list, "receive-buffers")
	require.Equal(t, Good, r.Status)
	require.Equal(t, "/proc/sys/net/core/rmem_max = 4194304", r.Fixed)
	require.Equal(t, "echo 212992 > /proc/sys/net/core/rmem_max", r.Undo)
	require.Equal(t, "4194304\n", string(files["proc/sys/net/core/rmem_max"].Data))
	r = find(t, list, "governor")
	require.Equal(t, Cure, r.Status)
	require.Contains(t, r.Text, "permission")
	r = find(t, list, "unprivileged-bpf") // 1 could not be undone
	require.Equal(t, Cure, r.Status)
	require.Empty(t, r.Fixed)
	require.Equal(t, "0\n", string(files["proc/sys/kernel/unprivileged_bpf_disabled"].Data))
}

// What cannot be found out is said, and is not good.
func TestUnknown(t *testing.T) {
	s, files := healthy()
	for path := range files {
		delete(files, path)
	}
	s.Clock = func() (time.Duration, bool, error) { return 0, false, errors.New("no clock") }
	s.Command = func(string, ...string) (string, error) { return "", errors.New("not permitted") }
	list, err := Run(s, "eth0")
	require.NoError(t, err)
	for _, name := range []string{"kernel", "capabilities", "locked-memory", "huge-pages", "clock-source", "clock-offset", "igmp-limits", "firewall", "rp-filter"} {
		require.Equal(t, Unknown, find(t, list, name).Status, name)
	}
	s.Interfaces = func() ([]Interface, error) { return nil, errors.New("no netlink") }
	_, err = Run(s, "")
	require.ErrorContains(t, err, "no netlink")
}

// In a name of sysctl's the dots of an interface's name are written as slashes.
func TestCureOfAnInterfaceWithADot(t *testing.T) {
	s, files := healthy()
	files["proc/sys/net/ipv4/conf/eth0.7/rp_filter"] = &fstest.MapFile{Data: []byte("1\n")}
	r := rpFilter(s, &Interface{Name: "eth0.7"}, nil)
	require.Len(t, r, 1)
	require.Equal(t, Cure, r[0].Status)
	require.Contains(t, r[0].Cure, " net.ipv4.conf.eth0/7.rp_filter=2")
}
