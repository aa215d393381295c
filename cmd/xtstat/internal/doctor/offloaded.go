package doctor

import (
	"cmp"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"github.com/socketxtreme/socketxtreme/stats"
)

// offloaded are the ports that processes in this network namespace have offloaded now, from the statistics in a directory: those of UDP sockets,
// and of listeners of TCP.
func offloaded(directory string) ([]Port, error) {
	entries, err := stats.List(directory)
	if err != nil {
		return nil, fmt.Errorf("statistics: %w", err)
	}
	here, _ := os.Readlink("/proc/self/ns/net")
	var list []Port
	for _, e := range entries {
		if there, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", e.Process)); !e.Live || err == nil && there != here {
			continue
		}
		r, err := stats.Open(e.Path)
		if err != nil {
			return nil, fmt.Errorf("statistics of process %d: %w", e.Process, err)
		}
		for _, v := range r.Blocks(stats.Sockets) {
			local, err := netip.ParseAddrPort(v.Info["local"])
			protocol := v.Info["protocol"]
			if err != nil || v.Totals["offloaded"] == 0 || local.Port() == 0 || protocol != "udp" && v.Info["state"] != "listening" {
				continue
			}
			list = append(list, Port{protocol, local})
		}
		_ = r.Close()
	}
	slices.SortFunc(list, func(a, b Port) int { return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), a.Local.Compare(b.Local)) })
	return slices.Compact(list), nil
}
