package doctor

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/hoststat"
	"github.com/socketxtreme/socketxtreme/stats"
)

// This is the machine that the program runs on, as the network namespace of the calling thread shows it.
func This() *System {
	return &System{Root: os.DirFS("/"), Interfaces: interfaces, Command: command, Clock: kernelClock, Getenv: os.Getenv,
		Offloaded: func() ([]Port, error) {
			return offloaded(cmp.Or(os.Getenv("VMA_STATS_SHMEM_DIR"), stats.DefaultDirectory()))
		},
		Write: func(path, value string) error {
			return os.WriteFile(filepath.Join("/", path), []byte(value+"\n"), 0) // it is there: its mode stays
		}}
}

// commandTime is how long a command may take.
const commandTime = 5 * time.Second

// command runs a command and returns what it prints.
func command(name string, args ...string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		for _, dir := range []string{"/usr/sbin", "/sbin"} { // not in the path of ordinary users
			if _, e := os.Stat(filepath.Join(dir, name)); e == nil {
				path, err = filepath.Join(dir, name), nil
				break
			}
		}
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	ctx, cancel := context.WithTimeout(context.Background(), commandTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}

// kernelClock asks the kernel what the service that steers its clock has told it.
func kernelClock() (time.Duration, bool, error) {
	var t unix.Timex
	state, err := unix.ClockAdjtime(unix.CLOCK_REALTIME, &t)
	if err != nil {
		return 0, false, fmt.Errorf("clock_adjtime: %w", err)
	}
	unit := time.Microsecond
	if t.Status&unix.STA_NANO != 0 {
		unit = time.Nanosecond
	}
	const timeError = 5 // TIME_ERROR
	return time.Duration(t.Offset) * unit, state != timeError && t.Status&unix.STA_UNSYNC == 0, nil
}

// interfaces lists the interfaces of the namespace.
func interfaces() ([]Interface, error) {
	links, err := hoststat.Interfaces()
	if err != nil {
		return nil, err
	}
	names := map[int]string{}
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	card, err := ethtool.NewEthtool()
	if err != nil {
		return nil, fmt.Errorf("ethtool: %w", err)
	}
	defer card.Close()
	var list []Interface
	for _, l := range links {
		a := l.Attrs()
		i := Interface{Name: a.Name, Kind: l.Type(), Index: a.Index, MTU: a.MTU, Up: a.RawFlags&unix.IFF_UP != 0,
			Carrier: a.RawFlags&unix.IFF_LOWER_UP != 0, Loopback: a.RawFlags&unix.IFF_LOOPBACK != 0, Master: names[a.MasterIndex], Combined: -1}
		if l.Type() == "vlan" {
			i.Parent = names[a.ParentIndex]
		}
		if x := a.Xdp; x != nil && x.Attached {
			i.XDP = fmt.Sprintf("%s, program %d", [...]string{"none", "native", "generic", "on the card", "several"}[x.AttachMode%5], x.ProgId)
		}
		addresses, err := netlink.AddrList(l, netlink.FAMILY_V4)
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) { // interrupted: addresses of some interface are changing
			return nil, err
		}
		for _, x := range addresses {
			i.Addresses = append(i.Addresses, x.IPNet.String())
		}
		i.ask(card)
		list = append(list, i)
	}
	return list, nil
}

// ask asks the driver. What it does not tell stays unknown.
func (i *Interface) ask(card *ethtool.Ethtool) {
	i.Driver, _ = card.DriverName(i.Name)
	if c, err := card.GetChannels(i.Name); err == nil {
		i.Combined, i.CombinedMax = int(c.CombinedCount+c.RxCount), int(c.MaxCombined+c.MaxRx)
	}
	if r, err := card.GetRing(i.Name); err == nil && r.RxMaxPending > 0 {
		i.Rings = &Rings{Rx: int(r.RxPending), RxMax: int(r.RxMaxPending), Tx: int(r.TxPending), TxMax: int(r.TxMaxPending)}
	}
	i.Features, _ = card.Features(i.Name)
	i.XDPFeatures, i.HasXDPFeatures = xdpFeatures(i.Index)
}

// xdpFeatures asks the kernel's netdev family what the driver of an interface can do with XDP (Linux 6.3).
func xdpFeatures(index int) (uint64, bool) {
	const getDevice, attributeIndex, attributeFeatures = 1, 1, 3 // linux/netdev.h
	family, err := netlink.GenlFamilyGet("netdev")
	if err != nil {
		return 0, false
	}
	req := nl.NewNetlinkRequest(int(family.ID), unix.NLM_F_ACK)
	// Not nl.Genlmsg: it leaves the reserved bytes of the header as it finds them, which the kernel refuses.
	req.AddRawData(append([]byte{getDevice, uint8(family.Version), 0, 0}, nl.NewRtAttr(attributeIndex, nl.Uint32Attr(uint32(index))).Serialize()...))
	messages, err := req.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil || len(messages) == 0 || len(messages[0]) < nl.SizeofGenlmsg {
		return 0, false
	}
	attributes, err := nl.ParseRouteAttr(messages[0][nl.SizeofGenlmsg:])
	if err != nil {
		return 0, false
	}
	for _, a := range attributes {
		if a.Attr.Type&^unix.NLA_F_NESTED == attributeFeatures && len(a.Value) == 8 {
			return nl.NativeEndian().Uint64(a.Value), true
		}
	}
	return 0, false
}
